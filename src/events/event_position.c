/* A position in the event log as the text of a cursor: "INDEX-ORDINAL-SUB". */
#include <inttypes.h>
#include <stdio.h>

#include "events/event_scan.h"

void event_position_format(struct event_position position, char out[EVENT_CURSOR_TEXT])
{
    int len = snprintf(out, EVENT_CURSOR_TEXT, "%" PRIu64 "-%" PRIu32 "-%" PRIu32, position.index,
                       position.ordinal, position.sub);
    hf_assert(len > 0 && len < EVENT_CURSOR_TEXT);
}

/* Takes the digits at the front of `text`; each number has one form. */
static bool take_number(struct slice *text, uint64_t max, uint64_t *out)
{
    uint64_t number = 0;
    size_t len = 0;
    while (len < text->len && text->data[len] >= '0' && text->data[len] <= '9') {
        uint64_t digit = (uint64_t)(text->data[len] - '0');
        if ((len > 0 && number == 0) || number > (max - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
        len++;
    }
    *text = slice_make(text->data + len, text->len - len);
    *out = number;
    return len > 0;
}

static bool take_dash(struct slice *text)
{
    if (text->len == 0 || text->data[0] != '-') {
        return false;
    }
    *text = slice_make(text->data + 1, text->len - 1);
    return true;
}

bool event_position_parse(struct slice text, struct event_position *out)
{
    uint64_t index;
    uint64_t ordinal;
    uint64_t sub;
    if (text.len == 0 || !take_number(&text, LIMIT_NUMBER - 1, &index) || !take_dash(&text) ||
        !take_number(&text, UINT32_MAX, &ordinal) || !take_dash(&text) ||
        !take_number(&text, UINT32_MAX, &sub) || text.len > 0) {
        return false;
    }
    *out = (struct event_position){index, (uint32_t)ordinal, (uint32_t)sub};
    return true;
}
