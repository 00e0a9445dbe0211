/* One POST at a time by libcurl, so events stay in order. The answer's body is not used. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#define CURL_DISABLE_TYPECHECK /* its macros have the names of functions */
#include <curl/curl.h>
#include <stdio.h>

#include "sinks/driver.h"
#include "sinks/library.h"
#include "sinks/signature.h"

enum {
    LINGER_MS = 250,
    EVENTS = 200, /* in one array */
    CONNECT_MS = 5000,
    RETRY_AFTER_MAX_S = 3600,
};

#define CURL_FUNCTIONS(X)  \
    X(global_init)         \
    X(easy_init)           \
    X(easy_setopt)         \
    X(easy_getinfo)        \
    X(easy_cleanup)        \
    X(easy_strerror)       \
    X(slist_append)        \
    X(slist_free_all)      \
    X(multi_init)          \
    X(multi_add_handle)    \
    X(multi_remove_handle) \
    X(multi_perform)       \
    X(multi_poll)          \
    X(multi_info_read)     \
    X(multi_cleanup)

static struct curl_library {
#define X(name) __typeof__(&curl_##name) name;
    CURL_FUNCTIONS(X)
#undef X
} curl;

struct webhook_driver {
    struct sink_driver driver; /* first */
    struct webhook_settings settings;
    struct signature_secrets secrets;
    struct buffer body;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    bool is_running;
    char text[CURL_ERROR_SIZE];
};

static struct webhook_driver *webhook_of(struct sink_driver *driver)
{
    return (struct webhook_driver *)driver;
}

/* ---- the request ---- */

static size_t drop_answer(char *bytes, size_t size, size_t count, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return size * count;
}

static void write_body(struct webhook_driver *w, const struct sink_batch *batch)
{
    buffer_truncate(&w->body, 0);
    buffer_append_byte(&w->body, '[');
    for (uint32_t i = 0; i < batch->count; i++) {
        buffer_append_text(&w->body, i == 0 ? "" : ",");
        buffer_append_slice(&w->body, sink_batch_line(batch, i));
    }
    buffer_append_byte(&w->body, ']');
    hf_assert(!w->body.overflowed);
}

static bool add_header(struct webhook_driver *w, const char *line)
{
    struct curl_slist *longer = curl.slist_append(w->headers, line);
    if (longer != NULL) {
        w->headers = longer;
    }
    return longer != NULL;
}

static bool add_headers(struct webhook_driver *w)
{
    char line[SIGNATURE_TEXT + 32];
    char signature[SIGNATURE_TEXT];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    signature_write(&w->secrets, (uint64_t)now.tv_sec, buffer_bytes(&w->body), signature);
    snprintf(line, sizeof(line), "Holdfast-Signature: %s", signature);
    curl.slist_free_all(w->headers);
    w->headers = NULL;
    bool is_fine = add_header(w, line) && add_header(w, "Content-Type: application/json") &&
                   add_header(w, "Expect:");
    snprintf(line, sizeof(line), "Holdfast-Schema: %d", EVENT_JSON_SCHEMA);
    return is_fine && add_header(w, line);
}

static void set_options(struct webhook_driver *w)
{
    const struct webhook_settings *s = &w->settings;
    struct slice body = buffer_bytes(&w->body);
    CURL *e = w->easy;
    w->text[0] = '\0';
    (void)curl.easy_setopt(e, CURLOPT_URL, s->url);
    (void)curl.easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https,http"); /* the URL was checked */
    (void)curl.easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl.easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl.easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)curl.easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)s->timeout_ms);
    (void)curl.easy_setopt(e, CURLOPT_ERRORBUFFER, w->text);
    (void)curl.easy_setopt(e, CURLOPT_USERAGENT, "holdfast");
    (void)curl.easy_setopt(e, CURLOPT_WRITEFUNCTION, drop_answer);
    (void)curl.easy_setopt(e, CURLOPT_HTTPHEADER, w->headers);
    (void)curl.easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    (void)curl.easy_setopt(e, CURLOPT_POSTFIELDS, body.data); /* not copied */
    if (s->ca[0] != '\0') {
        (void)curl.easy_setopt(e, CURLOPT_CAINFO, s->ca);
    }
}

static void end_request(struct webhook_driver *w)
{
    if (w->is_running) {
        (void)curl.multi_remove_handle(w->multi, w->easy);
        w->is_running = false;
    }
}

static void webhook_begin(struct sink_driver *driver, const struct sink_batch *batch)
{
    struct webhook_driver *w = webhook_of(driver);
    write_body(w, batch);
    if (add_headers(w)) {
        set_options(w);
        w->is_running = curl.multi_add_handle(w->multi, w->easy) == CURLM_OK;
    }
}

/* ---- the answer ---- */

static uint32_t retry_after_ms(struct webhook_driver *w)
{
    curl_off_t seconds = 0;
    (void)curl.easy_getinfo(w->easy, CURLINFO_RETRY_AFTER, &seconds);
    seconds = seconds < 0 ? 0 : seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : seconds;
    return (uint32_t)seconds * 1000;
}

static enum driver_step read_answer(struct webhook_driver *w, CURLcode code,
                                    struct driver_trouble *trouble)
{
    long status = 0;
    if (code != CURLE_OK) {
        snprintf(trouble->text, sizeof(trouble->text), "%.200s",
                 w->text[0] != '\0' ? w->text : curl.easy_strerror(code));
        return DRIVER_FAILED;
    }
    (void)curl.easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) {
        return DRIVER_DELIVERED;
    }
    trouble->retry_after_ms = retry_after_ms(w);
    trouble->too_large = status == 413;
    snprintf(trouble->text, sizeof(trouble->text), "the webhook answered %ld%s", status,
             status >= 300 && status < 400
                 ? ": redirects are not followed, set sink-webhook-url to the final address"
                 : "");
    return DRIVER_FAILED;
}

static enum driver_step webhook_poll(struct sink_driver *driver, uint32_t wait_ms,
                                     struct driver_trouble *trouble)
{
    struct webhook_driver *w = webhook_of(driver);
    int running = 0;
    int left = 0;
    if (!w->is_running) {
        snprintf(trouble->text, sizeof(trouble->text), "the request could not be made");
        return DRIVER_FAILED;
    }
    (void)curl.multi_perform(w->multi, &running);
    if (running > 0) {
        (void)curl.multi_poll(w->multi, NULL, 0, (int)wait_ms, NULL);
        (void)curl.multi_perform(w->multi, &running);
    }
    for (;;) {
        CURLMsg *message = curl.multi_info_read(w->multi, &left);
        if (message == NULL) {
            return DRIVER_WAITS;
        }
        if (message->msg == CURLMSG_DONE) {
            enum driver_step step = read_answer(w, message->data.result, trouble);
            end_request(w);
            return step;
        }
    }
}

/* ---- open and close ---- */

static void webhook_close(struct sink_driver *driver)
{
    struct webhook_driver *w = webhook_of(driver);
    if (w->multi != NULL) {
        end_request(w);
        curl.easy_cleanup(w->easy);
        (void)curl.multi_cleanup(w->multi);
        curl.slist_free_all(w->headers);
    }
    w->multi = NULL;
    w->easy = NULL;
    w->headers = NULL;
}

static bool webhook_open(struct sink_driver *driver, struct driver_trouble *trouble)
{
    struct webhook_driver *w = webhook_of(driver);
    char problem[SIGNATURE_PROBLEM];
    if (!signature_load(&w->secrets, w->settings.secret_file, problem)) {
        snprintf(trouble->text, sizeof(trouble->text), "%s", problem);
        return false;
    }
    w->multi = curl.multi_init();
    w->easy = curl.easy_init();
    hf_assert(w->multi != NULL && w->easy != NULL); /* no memory */
    return true;
}

static void webhook_free(struct sink_driver *driver)
{
    struct webhook_driver *w = webhook_of(driver);
    signature_wipe(&w->secrets);
    buffer_close(&w->body);
    free(w);
}

/* ---- settings ---- */

static bool is_loopback(const char *host)
{
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    return (len == 9 && strncasecmp(host, "localhost", len) == 0) ||
           (len == 5 && memcmp(host, "[::1]", len) == 0) ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == len);
}

/* NULL: the URL is accepted. */
static const char *check_url(const struct webhook_settings *s)
{
    if (strchr(s->url, '@') != NULL) {
        return "must not contain a user name: receivers verify the signature";
    }
    if (strncmp(s->url, "https://", 8) == 0 && s->url[8] != '\0') {
        return NULL;
    }
    if (strncmp(s->url, "http://", 7) != 0) {
        return "must begin with https://";
    }
    return s->allow_http || is_loopback(s->url + 7)
               ? NULL
               : "http:// is for receivers on this machine only: use https://, or allow it with "
                 "sink-webhook-http = allow";
}

static bool check_files(struct webhook_driver *w, char problem[DRIVER_PROBLEM])
{
    char text[SIGNATURE_PROBLEM];
    struct stat info;
    if (!signature_load(&w->secrets, w->settings.secret_file, text)) {
        snprintf(problem, DRIVER_PROBLEM, "sink-webhook-secret-file: %s", text);
        return false;
    }
    if (w->settings.ca[0] != '\0' && (stat(w->settings.ca, &info) != 0 || !S_ISREG(info.st_mode))) {
        snprintf(problem, DRIVER_PROBLEM, "sink-webhook-ca: %.200s cannot be read", w->settings.ca);
        return false;
    }
    return true;
}

static bool load_curl(char problem[DRIVER_PROBLEM])
{
#define X(function) {"curl_" #function, &curl.function},
    const struct library_function functions[] = {CURL_FUNCTIONS(X)};
#undef X
    char text[DRIVER_PROBLEM / 2];
    if (!library_load("libcurl.so.4", "libcurl4", functions,
                      sizeof(functions) / sizeof(functions[0]), text, sizeof(text))) {
        snprintf(problem, DRIVER_PROBLEM, "sink-webhook-url: %s", text);
        return false;
    }
    if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        snprintf(problem, DRIVER_PROBLEM, "sink-webhook-url: libcurl does not start");
        return false;
    }
    return true;
}

struct sink_driver *webhook_driver_new(const struct webhook_settings *settings,
                                       char problem[DRIVER_PROBLEM])
{
    const char *wrong = check_url(settings);
    if (wrong != NULL) {
        snprintf(problem, DRIVER_PROBLEM, "sink-webhook-url: %s", wrong);
        return NULL;
    }
    struct webhook_driver *w = calloc(1, sizeof(*w));
    hf_assert(w != NULL);
    w->driver = (struct sink_driver){.linger_ms = LINGER_MS,
                                     .events = EVENTS,
                                     .open = webhook_open,
                                     .begin = webhook_begin,
                                     .poll = webhook_poll,
                                     .close = webhook_close,
                                     .free = webhook_free};
    w->settings = *settings;
    buffer_init(&w->body, memory_system(), SINK_BATCH_BYTES + EVENTS + 2);
    if (!check_files(w, problem) || !load_curl(problem)) {
        webhook_free(&w->driver);
        return NULL;
    }
    return &w->driver;
}
