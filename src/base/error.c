/* Texts and codes of base/error.h, generated from its list. */
#include "base/error.h"

#include "base/panic.h"

struct error_row {
    const char *code;
    const char *text;
    int http;
    int grpc;
};

static const struct error_row rows[HF_ERROR_COUNT] = {
#define X(symbol, code, http, grpc, text) [HF_##symbol] = {code, text, http, grpc},
    HF_ERROR_LIST(X)
#undef X
};

static const struct error_row *row_of(enum hf_error error)
{
    hf_assert((unsigned)error < HF_ERROR_COUNT);
    return &rows[error];
}

const char *hf_error_code(enum hf_error error)
{
    return row_of(error)->code;
}

const char *hf_error_text(enum hf_error error)
{
    return row_of(error)->text;
}

int hf_error_http_status(enum hf_error error)
{
    return row_of(error)->http;
}

int hf_error_grpc_code(enum hf_error error)
{
    return row_of(error)->grpc;
}
