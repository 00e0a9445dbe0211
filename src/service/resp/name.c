/* See name.h. */
#include "service/resp/name.h"

#include "base/panic.h"
#include "base/text.h"

static const char *const prefixes[RESP_DATABASES] = {
    "redis:0/",  "redis:1/",  "redis:2/",  "redis:3/", "redis:4/",  "redis:5/",
    "redis:6/",  "redis:7/",  "redis:8/",  "redis:9/", "redis:10/", "redis:11/",
    "redis:12/", "redis:13/", "redis:14/", "redis:15/"};

static bool begins_with(struct slice text, struct slice prefix)
{
    return text.len >= prefix.len && memcmp(text.data, prefix.data, prefix.len) == 0;
}

static bool is_reserved(struct slice text)
{
    if (!begins_with(text, slice_of("redis:"))) {
        return false;
    }
    for (uint32_t i = 0; i < RESP_DATABASES; i++) {
        if (begins_with(text, slice_of(prefixes[i]))) {
            return true;
        }
    }
    return false;
}

struct slice resp_name_prefix(uint32_t database)
{
    hf_assert(database < RESP_DATABASES);
    return database == 0 ? slice_make("", 0) : slice_of(prefixes[database]);
}

/* The length of the character at `at` that a name may have as it is; 0: none. */
static size_t plain_char(struct slice key, size_t at)
{
    uint8_t lead = key.data[at];
    size_t len = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    bool is_plain =
        lead != '%' && at + len <= key.len && text_is_plain(slice_make(key.data + at, len));
    return is_plain ? len : 0;
}

/* "." and ".." are no segments of a name. */
static bool is_dots(struct slice key, size_t at)
{
    size_t end = at;
    while (end < key.len && key.data[end] != '/') {
        end++;
    }
    return end - at <= 2 && key.data[at] == '.' && key.data[end - 1] == '.';
}

static size_t escape(uint8_t byte, uint8_t *out)
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = '%';
    out[1] = (uint8_t)digits[byte >> 4];
    out[2] = (uint8_t)digits[byte & 15];
    return 3;
}

static size_t encode(struct slice key, uint8_t *out)
{
    size_t len = 0;
    bool is_first = true; /* of a segment */
    for (size_t at = 0; at < key.len;) {
        bool is_slash = key.data[at] == '/';
        size_t plain = plain_char(key, at);
        if ((is_slash && (is_first || at + 1 == key.len)) || (is_first && is_dots(key, at))) {
            plain = 0; /* else a segment would be empty, or have only dots */
        }
        if (plain == 0) {
            len += escape(key.data[at], out + len);
        } else {
            memcpy(out + len, key.data + at, plain);
            len += plain;
        }
        is_first = is_slash && plain == 1;
        at += plain == 0 ? 1 : plain;
    }
    return len;
}

bool resp_name_of_key(uint32_t database, struct slice key, uint8_t out[RESP_NAME_BYTES],
                      struct slice *name)
{
    hf_assert(database < RESP_DATABASES);
    if (key.len == 0 || key.len > RESP_KEY_MAX) {
        return false;
    }
    if (database == 0 && !is_reserved(key) && text_is_name(key)) {
        *name = key;
        return true;
    }
    struct slice prefix = slice_of(prefixes[database]);
    memcpy(out, prefix.data, prefix.len);
    *name = slice_make(out, prefix.len + encode(key, out + prefix.len));
    return text_is_name(*name);
}

bool resp_name_of_channel(struct slice channel, uint8_t out[RESP_NAME_BYTES], struct slice *name)
{
    if (channel.len > 0 && channel.len <= RESP_KEY_MAX && !is_reserved(channel) &&
        text_is_plain(channel)) {
        *name = channel;
        return true;
    }
    return resp_name_of_key(0, channel, out, name);
}

static int digit(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte at *at, which moves behind it. */
static uint8_t unescape(struct slice name, size_t *at)
{
    const uint8_t *from = name.data + *at;
    bool is_escape =
        name.len - *at >= 3 && from[0] == '%' && digit(from[1]) >= 0 && digit(from[2]) >= 0;
    *at += is_escape ? 3 : 1;
    return is_escape ? (uint8_t)((uint32_t)digit(from[1]) << 4 | (uint32_t)digit(from[2]))
                     : from[0];
}

/* No key has such a name: an encoded '%' is followed by two digits. */
static const char shards[] = "redis:0/%shard/";

bool resp_name_of_shard(struct slice channel, uint8_t out[RESP_NAME_BYTES], struct slice *name)
{
    struct slice prefix = slice_of(shards);
    if (channel.len == 0 || channel.len > RESP_KEY_MAX) {
        return false;
    }
    memcpy(out, prefix.data, prefix.len);
    *name = slice_make(out, prefix.len + encode(channel, out + prefix.len));
    return text_is_name(*name);
}

bool resp_shard_of_name(struct slice name, uint8_t out[RESP_KEY_MAX], struct slice *channel)
{
    struct slice prefix = slice_of(shards);
    if (!begins_with(name, prefix)) {
        return false;
    }
    size_t len = 0;
    for (size_t at = prefix.len; at < name.len && len < RESP_KEY_MAX; len++) {
        out[len] = unescape(name, &at);
    }
    *channel = slice_make(out, len);
    return true;
}

struct slice resp_channel_of_name(struct slice name, uint8_t out[RESP_KEY_MAX])
{
    struct slice channel = name;
    return resp_key_of_name(0, name, out, &channel) ? channel : name;
}

bool resp_key_of_name(uint32_t database, struct slice name, uint8_t out[RESP_KEY_MAX],
                      struct slice *key)
{
    hf_assert(database < RESP_DATABASES);
    if (!is_reserved(name)) {
        *key = name;
        return database == 0;
    }
    struct slice prefix = slice_of(prefixes[database]);
    if (!begins_with(name, prefix)) {
        return false;
    }
    size_t len = 0;
    for (size_t at = prefix.len; at < name.len; len++) {
        if (len == RESP_KEY_MAX) {
            return false;
        }
        out[len] = unescape(name, &at);
    }
    /* Another API may have made a name that no key has. */
    uint8_t again[RESP_NAME_BYTES];
    struct slice same;
    *key = slice_make(out, len);
    return resp_name_of_key(database, *key, again, &same) && slice_equal(same, name);
}
