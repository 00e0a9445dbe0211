/* Lists in pages (S9.2); request helpers. */
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/exits.h"
#include "cli/say.h"

enum { PAGES_MAX = 100000 };

static void *grow(void *array, size_t count, size_t more, size_t size)
{
    void *grown = reallocarray(array, count + more + 1, size);
    hf_assert(grown != NULL);
    return grown;
}

static void keep_page(struct api_pages *pages, struct api_answer *answer, const char *key)
{
    const struct json_t *array = json_tree_get(answer->tree, key);
    size_t count = json_tree_count(array);
    pages->trees = grow(pages->trees, pages->tree_count, 1, sizeof(*pages->trees));
    pages->trees[pages->tree_count++] = answer->tree;
    pages->items = grow(pages->items, pages->count, count, sizeof(*pages->items));
    for (size_t i = 0; i < count; i++) {
        pages->items[pages->count++] = json_tree_at(array, i);
    }
    answer->tree = NULL; /* `pages` owns it */
}

int api_pages_read(struct api *api, const char *target, const char *key, struct api_pages *pages)
{
    return api_pages_read_some(api, target, key, 0, pages);
}

int api_pages_read_some(struct api *api, const char *target, const char *key, uint64_t most,
                        struct api_pages *pages)
{
    char cursor[64] = "";
    *pages = (struct api_pages){.count = 0};
    for (unsigned i = 0; i < PAGES_MAX; i++) {
        char paged[API_TARGET];
        struct api_answer answer;
        (void)snprintf(paged, sizeof(paged), "%s%s%s", target, cursor[0] != '\0' ? "&cursor=" : "",
                       cursor);
        int code = api_get(api, paged, &answer);
        if (code != 0) {
            api_pages_close(pages);
            return code;
        }
        struct slice next = json_tree_text(json_tree_get(answer.tree, "next_cursor"));
        (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)next.len, (const char *)next.data);
        keep_page(pages, &answer, key);
        api_answer_close(&answer);
        if (most != 0 && pages->count > most) {
            pages->count = most;
        }
        if (cursor[0] == '\0' || (most != 0 && pages->count == most)) {
            return 0;
        }
    }
    cli_say("the list has too many pages; use a prefix");
    api_pages_close(pages);
    return EXIT_FAILED;
}

void api_pages_close(struct api_pages *pages)
{
    for (size_t i = 0; i < pages->tree_count; i++) {
        json_tree_free(pages->trees[i]);
    }
    free(pages->trees);
    free((void *)pages->items);
    *pages = (struct api_pages){.count = 0};
}

static void print_array(const struct api_pages *pages, const char *key)
{
    struct buffer out;
    buffer_init(&out, memory_system(), API_ANSWER_MAX);
    printf("{\"%s\":[", key);
    for (size_t i = 0; i < pages->count; i++) {
        json_tree_write(pages->items[i], &out);
        struct slice text = buffer_bytes(&out);
        printf("%s%.*s", i == 0 ? "" : ",", (int)text.len, (const char *)text.data);
        buffer_truncate(&out, 0);
    }
    printf("]");
    buffer_close(&out);
}

void api_pages_print_json(const struct api_pages *pages, const char *key)
{
    print_array(pages, key);
    printf("}\n");
}

void api_pages_print_json_since(const struct api_pages *pages, const char *key,
                                struct slice complete_since)
{
    print_array(pages, key);
    if (complete_since.len > 0) {
        printf(",\"complete_since\":\"%.*s\"}\n", (int)complete_since.len,
               (const char *)complete_since.data);
    } else {
        printf(",\"complete_since\":null}\n");
    }
}

void api_print_json(const struct api_answer *answer)
{
    struct slice text = buffer_bytes(&answer->text);
    (void)fwrite(text.data, 1, text.len, stdout);
    if (text.len == 0 || text.data[text.len - 1] != '\n') {
        (void)putchar('\n');
    }
}

void api_actor(char *out, size_t size)
{
    char host[128] = "localhost";
    const struct passwd *user = getpwuid(geteuid());
    (void)gethostname(host, sizeof(host) - 1);
    if (user != NULL) {
        (void)snprintf(out, size, "%s@%s", user->pw_name, host);
    } else {
        (void)snprintf(out, size, "uid %ju@%s", (uintmax_t)geteuid(), host);
    }
}

void api_request_id(char out[33])
{
    uint64_t bits[2] = {0, 0};
    hf_assert(getrandom(bits, sizeof(bits), 0) == (ssize_t)sizeof(bits));
    (void)snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
}
