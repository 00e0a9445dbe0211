/* The errors of operation, one list: the symbol, the stable code that clients see, the HTTP status,
 * the gRPC code and what it means. Not acquiring a lock is an answer and no error; the reasons for
 * that are in core/result.h. */
#ifndef HOLDFAST_BASE_ERROR_H
#define HOLDFAST_BASE_ERROR_H

#define HF_ERROR_LIST(X)                                                                           \
    X(OK, "ok", 200, 0, "done")                                                                    \
    X(MALFORMED, "malformed", 400, 3, "the command cannot be decoded")                             \
    X(INVALID_NAME, "invalid_name", 400, 3,                                                        \
      "a name is 1 to 512 bytes of UTF-8 without control characters and without an empty, '.' or " \
      "'..' segment between slashes")                                                              \
    X(INVALID_CLIENT, "invalid_client_id", 400, 3,                                                 \
      "client_id is 1 to 255 bytes of UTF-8 without control characters")                           \
    X(INVALID_OWNER, "invalid_owner", 400, 3,                                                      \
      "owner is at most 64 bytes of UTF-8 without control characters")                             \
    X(INVALID_ID, "invalid_id", 400, 3, "a session or lease id is missing")                        \
    X(INVALID_TTL, "invalid_ttl", 400, 3, "ttl is out of range (100 ms to 24 h)")                  \
    X(INVALID_MODE, "invalid_mode", 400, 3,                                                        \
      "mode is one of exclusive, shared, semaphore, election; a multi-lock is exclusive")          \
    X(INVALID_LIMIT, "invalid_limit", 400, 3,                                                      \
      "a semaphore needs a limit of 1 to 10,000 and at least one permit; other modes take neither") \
    X(INVALID_DELAY, "invalid_delay", 400, 3, "lock_delay_ms or linger_ms is more than 24 h")      \
    X(INVALID_METADATA, "invalid_metadata", 400, 3,                                                \
      "metadata or value is more than 4,096 bytes or not UTF-8")                                   \
    X(INVALID_REQUEST_ID, "invalid_request_id", 400, 3,                                            \
      "request_id is 1 to 64 visible ASCII characters, and not given together with seq; seq needs " \
      "a session")                                                                                 \
    X(INVALID_ACTOR, "invalid_actor", 400, 3,                                                      \
      "actor_id (1 to 255 bytes) and reason (1 to 1,024 bytes) are required")                      \
    X(INVALID_TOKEN, "invalid_token", 400, 3, "fencing_token or lease_id is missing or too large") \
    X(DUPLICATE_NAME, "duplicate_name", 400, 3, "a multi-lock names the same lock twice")          \
    X(SESSION_NOT_FOUND, "session_not_found", 404, 5, "no such session")                           \
    X(SESSION_EXPIRED, "session_expired", 410, 9, "the session has ended; open a new one")         \
    X(REQUEST_ID_REUSED, "request_id_reused", 409, 6,                                              \
      "this request_id or seq was used for another request")                                       \
    X(SEQ_ACKNOWLEDGED, "seq_acknowledged", 409, 9,                                                \
      "the reply to this seq was acknowledged and is no longer kept")                              \
    X(NOT_HELD, "not_held", 404, 5, "nobody holds this name")                                      \
    X(TOO_MANY_UNACKED, "limit_session_unacked", 429, 8,                                           \
      "more than 1,024 replies of this session are unacknowledged; send acked_through")            \
    X(TOO_MANY_LOCKS, "limit_session_locks", 429, 8,                                               \
      "a session holds or waits for at most 10,000 names")                                         \
    X(TOO_MANY_SESSIONS, "limit_sessions", 429, 8, "the cluster holds no more sessions")           \
    X(QUEUE_FULL, "limit_queue", 429, 8, "the queue of this name is full (1,000,000)")             \
    X(TOO_MANY_NODES, "limit_nodes", 429, 8, "waiters come through more than 64 nodes")            \
    X(CORRUPT, "corrupt", 500, 15, "the bytes are damaged")                                        \
    X(VERSION, "unsupported_version", 500, 12, "written by a newer version of Holdfast")

enum hf_error {
#define X(symbol, code, http, grpc, text) HF_##symbol,
    HF_ERROR_LIST(X)
#undef X
        HF_ERROR_COUNT
};

const char *hf_error_code(enum hf_error error);
const char *hf_error_text(enum hf_error error);
int hf_error_http_status(enum hf_error error);
int hf_error_grpc_code(enum hf_error error);

#endif
