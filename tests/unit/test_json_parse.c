/* Tests of the JSON parser: it accepts what jansson accepts, and finds repeated keys of objects of
 * any size. */
#include "base_testing.h"

#include <jansson.h>

#include "wire/json.h"
#include "wire/json_scan.h"

static enum hf_error parse(struct slice text, struct json_members *members)
{
    struct counted counted;
    struct fault fault;
    enum json_kind kind;
    counted_init(&counted);
    enum hf_error error = json_parse(&counted.memory, text, 0, &kind, members, &fault);
    assert_all_given_back(&counted);
    return error;
}

static const char *const samples[] = {
    "{\"client_id\":\"w\\u00f6rker \\ud83d\\ude00\",\"ttl_ms\":100,\"x\":-1.5e+3,\"y\":true}",
    "{\"a\":{\"b\":[1,{\"c\":null},[]],\"\\u0061\":false},\"d\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
    "[0,-0,1e5,1E-5,123456789012345678901234567890,\"\xe2\x82\xac\",{}]",
    " {\"k\" : [ \"a\" , \"b\" ] ,\r\n\t\"l\" : { } } ",
    "{\"a\":1,\"b\":2,\"c\":3,\"\":4,\"a\\u0000\":5}",
    "\"just a string\"",
};

/* What jansson accepts, with the limits of json.h. */
static bool is_accepted(struct slice text, size_t *members)
{
    unsigned depth = 0;
    bool is_inside = false;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (is_inside && c == '\\') {
            i++;
        } else if (c == '"') {
            is_inside = !is_inside;
        } else if (!is_inside && (c == '[' || c == '{') && ++depth > LIMIT_JSON_DEPTH) {
            return false;
        } else if (!is_inside && (c == ']' || c == '}')) {
            depth -= depth > 0;
        }
    }
    json_error_t error;
    json_t *root =
        json_loadb((const char *)text.data, text.len,
                   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    *members = json_is_object(root) ? json_object_size(root) : 0;
    json_decref(root);
    return root != NULL;
}

static uint64_t drawn = 1;

static uint32_t below(uint32_t limit)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(drawn >> 33) % limit;
}

/* Changes, removes, repeats or inserts a few bytes. */
static size_t mutate(uint8_t *text, size_t len, size_t max)
{
    static const char bytes[] = "{}[]\",:\\u0ade1-+.E tfn\n\xc3\xa4\xff\x1f";
    for (uint32_t changes = below(4); changes > 0 && len > 0; changes--) {
        size_t at = below((uint32_t)len);
        uint8_t byte = (uint8_t)bytes[below(sizeof(bytes) - 1)];
        switch (below(3)) {
        case 0:
            text[at] = byte;
            break;
        case 1:
            memmove(text + at, text + at + 1, --len - at);
            break;
        default:
            if (len < max) {
                memmove(text + at + 1, text + at, len++ - at);
                text[at] = byte;
            }
            break;
        }
    }
    return len;
}

static void it_accepts_what_jansson_accepts(void **state)
{
    (void)state;
    enum { RUNS = 100000, MAX = 256 };
    uint32_t accepted = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        const char *sample = samples[below(sizeof(samples) / sizeof(samples[0]))];
        uint8_t text[MAX];
        memcpy(text, sample, strlen(sample));
        struct slice bytes = slice_make(text, mutate(text, strlen(sample), MAX));
        struct json_members members = {.count = 0};
        size_t expected = 0;
        bool is_valid = parse(bytes, &members) == HF_OK;
        if (is_valid != is_accepted(bytes, &expected) || (is_valid && members.count != expected)) {
            fail_msg("%.*s: %s", (int)bytes.len, (const char *)text,
                     is_valid ? "accepted" : "refused");
        }
        accepted += is_valid;
    }
    assert_true(accepted > RUNS / 20);
}

static size_t write_object(char *text, size_t size, unsigned keys, const char *last)
{
    size_t len = (size_t)snprintf(text, size, "{");
    for (unsigned i = 0; i < keys; i++) {
        len += (size_t)snprintf(text + len, size - len, "\"key%u\":{\"a\":%u},", i, i);
    }
    return len + (size_t)snprintf(text + len, size - len, "\"%s\":1}", last);
}

static void a_repeated_key_is_found_in_an_object_of_any_size(void **state)
{
    (void)state;
    static const unsigned sizes[] = {1, 31, 32, 33, 1000};
    enum { SIZE = 1 << 16 };
    char *text = malloc(SIZE);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t len = write_object(text, SIZE, sizes[i], "other");
        assert_int_equal(parse(slice_make(text, len), NULL), HF_OK);
        len = write_object(text, SIZE, sizes[i], "key0");
        assert_int_equal(parse(slice_make(text, len), NULL), HF_FIELD_REPEATED);
        len = write_object(text, SIZE, sizes[i], "\\u006bey0");
        assert_int_equal(parse(slice_make(text, len), NULL), HF_FIELD_REPEATED);
    }
    free(text);
}

static void members_are_slices_of_the_text(void **state)
{
    (void)state;
    struct json_members members;
    assert_int_equal(parse(slice_of(" { \"a\\n\" : [ 1 , 2 ] , \"b\":\"c\" } "), &members), HF_OK);
    assert_int_equal(members.count, 2);
    assert_true(slice_equal(members.at[0].key, slice_of("a\\n")) && members.at[0].has_escapes);
    assert_true(slice_equal(members.at[0].value, slice_of("[ 1 , 2 ]")));
    assert_int_equal(members.at[0].kind, JSON_KIND_ARRAY);
    assert_true(slice_equal(members.at[1].key, slice_of("b")) && !members.at[1].has_escapes);
    assert_true(slice_equal(members.at[1].value, slice_of("\"c\"")));
    assert_int_equal(members.at[1].kind, JSON_KIND_STRING);
}

static void items_of_an_array_are_found(void **state)
{
    (void)state;
    static const char *const items[] = {"1", "\"a,]\"", "[2,[3]]", "{\"b\":[4]}", "null"};
    struct slice rest = slice_of("[ 1 , \"a,]\",[2,[3]] ,{\"b\":[4]},null ]");
    struct slice item;
    for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
        assert_true(json_scan_item(&rest, &item));
        assert_true(slice_equal(item, slice_of(items[i])));
    }
    assert_false(json_scan_item(&rest, &item));
    rest = slice_of("[ ]");
    assert_false(json_scan_item(&rest, &item));
}

static void compact_text_of_one_value(void **state)
{
    (void)state;
    uint8_t out[64];
    size_t len = 77;
    struct fault fault;
    const struct memory *memory = memory_system();
    assert_int_equal(json_compact(memory, slice_of(" { \"a\" : 1 } "), out, &len, &fault), HF_OK);
    assert_true(slice_equal(slice_make(out, len), slice_of("{\"a\":1}")));
    assert_int_equal(json_compact(memory, slice_of(" null "), out, &len, &fault), HF_OK);
    assert_int_equal(len, 0);
    assert_int_equal(json_compact(memory, slice_of("1,\"x\":2"), out, &len, &fault),
                     HF_JSON_MALFORMED);
    assert_int_equal(json_compact(memory, slice_of(" "), out, &len, &fault), HF_JSON_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_accepts_what_jansson_accepts),
        cmocka_unit_test(a_repeated_key_is_found_in_an_object_of_any_size),
        cmocka_unit_test(members_are_slices_of_the_text),
        cmocka_unit_test(items_of_an_array_are_found),
        cmocka_unit_test(compact_text_of_one_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
