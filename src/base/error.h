/* The errors of operations, in one list: symbol, stable code for clients, HTTP status, gRPC code,
 * meaning. Not acquiring a lock is a result, not an error (core/result.h). Nodes of different
 * versions identify errors by number: add new ones at the end. */
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
      "a semaphore needs a limit of 1 to 10,000 and at least one permit; other modes take "        \
      "neither")                                                                                   \
    X(INVALID_DELAY, "invalid_delay", 400, 3, "lock_delay_ms or linger_ms is more than 24 h")      \
    X(INVALID_METADATA, "invalid_metadata", 400, 3,                                                \
      "metadata or value is more than 4,096 bytes or not UTF-8")                                   \
    X(INVALID_REQUEST_ID, "invalid_request_id", 400, 3,                                            \
      "request_id is 1 to 64 visible ASCII characters, and not given together with seq; seq "      \
      "needs a session")                                                                           \
    X(INVALID_ACTOR, "invalid_actor", 400, 3,                                                      \
      "actor_id (1 to 255 bytes) and reason (1 to 1,024 bytes) are required")                      \
    X(INVALID_TOKEN, "invalid_token", 400, 3, "fencing_token or lease_id is missing or too large") \
    X(DUPLICATE_NAME, "duplicate_name", 400, 3,                                                    \
      "a multi-lock names the same lock twice, or a transaction changes a key twice")              \
    X(SESSION_NOT_FOUND, "session_not_found", 404, 5, "no such session")                           \
    X(SESSION_EXPIRED, "session_expired", 410, 9, "the session has ended; open a new one")         \
    X(REQUEST_ID_REUSED, "request_id_reused", 409, 6,                                              \
      "this request_id or seq was used for another request")                                       \
    X(SEQ_ACKNOWLEDGED, "seq_acknowledged", 409, 9,                                                \
      "the reply to this seq was acknowledged and is no longer kept")                              \
    X(NOT_HELD, "not_held", 404, 5, "the name is not held")                                        \
    X(TOO_MANY_UNACKED, "limit_session_unacked", 429, 8,                                           \
      "more than 1,024 replies of this session are unacknowledged; send acked_through")            \
    X(TOO_MANY_LOCKS, "limit_session_locks", 429, 8,                                               \
      "a session holds or waits for at most 10,000 names")                                         \
    X(TOO_MANY_SESSIONS, "limit_sessions", 429, 8, "the cluster holds no more sessions")           \
    X(QUEUE_FULL, "limit_queue", 429, 8, "the queue of this name is full (1,000,000)")             \
    X(TOO_MANY_NODES, "limit_nodes", 429, 8, "waiters are attached to more than 64 nodes")         \
    X(UNAVAILABLE, "unavailable", 503, 14,                                                         \
      "no leader with a majority can be reached; nothing was done, try again")                     \
    X(OUTCOME_UNKNOWN, "outcome_unknown", 504, 4,                                                  \
      "the request may have been executed; repeat it with the same request_id")                    \
    X(DISK_FULL, "disk_full", 503, 14,                                                             \
      "the leader's disk is full; nothing was done; free space on that node, then "                \
      "try again")                                                                                 \
    X(BUSY, "busy", 503, 14, "too many requests at once; nothing was done, try again")             \
    X(MEMBERSHIP, "membership_refused", 409, 9,                                                    \
      "this membership change is not possible now; the message has the reason")                    \
    X(CORRUPT, "corrupt", 500, 15, "the bytes are damaged")                                        \
    X(VERSION, "unsupported_version", 500, 12, "written by a newer version of Holdfast")           \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", 405, 12,                                           \
      "this path does not take this method; see the header Allow")                                 \
    X(HTTP_REQUEST_LINE, "http_request_line", 400, 3,                                              \
      "the request line is not METHOD, TARGET and HTTP/1.1 with single spaces between them")       \
    X(HTTP_TARGET, "http_target", 400, 3,                                                          \
      "the request target is a path, an http:// address, or * for OPTIONS, without a space or "    \
      "'#'")                                                                                       \
    X(HTTP_VERSION, "http_version", 505, 12, "only HTTP/1.1, HTTP/1.0 and HTTP/2 are supported")   \
    X(HTTP_METHOD, "http_method", 501, 12,                                                         \
      "only GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, LOCK and UNLOCK are supported")          \
    X(HTTP_BARE_LF, "http_bare_lf", 400, 3, "a line ends with LF alone, it must end with CR LF")   \
    X(HTTP_CONTROL, "http_control_character", 400, 3,                                              \
      "a control character in the head of the request")                                            \
    X(HTTP_NUL, "http_nul", 400, 3, "a NUL in the head of the request")                            \
    X(HTTP_FOLDED, "http_folded_header", 400, 3,                                                   \
      "a header line begins with a space: folded headers are not supported")                       \
    X(HTTP_COLON, "http_space_before_colon", 400, 3,                                               \
      "a space between a header's name and its colon")                                             \
    X(HTTP_HEADER, "http_header", 400, 3, "a header line is not NAME: VALUE")                      \
    X(HTTP_HOST, "http_host", 400, 3,                                                              \
      "HTTP/1.1 needs the header Host, once, with a host and perhaps a port")                      \
    X(HTTP_LENGTH, "http_content_length", 400, 3,                                                  \
      "Content-Length is not a number made of digits only")                                        \
    X(HTTP_LENGTH_REPEATED, "http_content_length_repeated", 400, 3,                                \
      "Content-Length is given more than once")                                                    \
    X(HTTP_LENGTH_CHUNKED, "http_length_and_chunked", 400, 3,                                      \
      "Content-Length and Transfer-Encoding are given together")                                   \
    X(HTTP_ENCODING, "http_transfer_encoding", 501, 12,                                            \
      "Transfer-Encoding is not exactly 'chunked', once")                                          \
    X(HTTP_10_CHUNKED, "http_chunked_in_http10", 400, 3, "HTTP/1.0 has no Transfer-Encoding")      \
    X(HTTP_LENGTH_REQUIRED, "http_length_required", 411, 3,                                        \
      "this HTTP/1.0 request needs a Content-Length, 0 if there is no body")                       \
    X(HTTP_EXPECT, "http_expect", 417, 3, "the only supported expectation is 100-continue")        \
    X(HTTP_CHUNK, "http_chunk", 400, 3,                                                            \
      "a chunk of the body is not SIZE in hexadecimal, CR LF, that many bytes, CR LF")             \
    X(LINE_TOO_LONG, "limit_request_line", 414, 8, "a request line has at most 8,192 bytes")       \
    X(HEADERS_TOO_LARGE, "limit_header_bytes", 431, 8,                                             \
      "the headers of a request have at most 16,384 bytes")                                        \
    X(TOO_MANY_HEADERS, "limit_headers", 431, 8, "a request has at most 64 headers")               \
    X(BODY_TOO_LARGE, "limit_body", 413, 8, "a body has at most 1,048,576 bytes")                  \
    X(CHUNK_LINE_TOO_LONG, "limit_chunk_line", 400, 8,                                             \
      "a chunk's size and extensions take at most 256 bytes, all extensions 4,096")                \
    X(TRAILERS_TOO_LARGE, "limit_trailers", 431, 8,                                                \
      "the trailers of a request have at most 4,096 bytes")                                        \
    X(BAD_ESCAPE, "uri_escape", 400, 3,                                                            \
      "a % in the path or the query is not followed by two hexadecimal digits")                    \
    X(URI_NOT_UTF8, "uri_not_utf8", 400, 3, "the path or the query is not UTF-8, or holds a NUL")  \
    X(TOO_MANY_PARAMETERS, "limit_parameters", 400, 8, "a query has at most 16 parameters")        \
    X(JSON_MALFORMED, "json_malformed", 400, 3, "the body is not valid JSON")                      \
    X(JSON_NOT_OBJECT, "json_not_object", 400, 3, "the body is not a JSON object")                 \
    X(JSON_NOT_UTF8, "json_not_utf8", 400, 3, "the body is not UTF-8")                             \
    X(JSON_NUL, "json_nul", 400, 3, "the body holds a NUL, as a byte or as \\u0000")               \
    X(JSON_NUMBER, "json_number", 400, 3, "the body holds a number that is too large")             \
    X(JSON_TOO_DEEP, "limit_json_depth", 400, 8, "JSON is at most 32 levels deep")                 \
    X(FIELD_UNKNOWN, "field_unknown", 400, 3, "unknown field or parameter")                        \
    X(FIELD_MISSING, "field_missing", 400, 3, "a required field is missing")                       \
    X(FIELD_REPEATED, "field_repeated", 400, 3, "a field or parameter is given twice")             \
    X(FIELD_TYPE, "field_type", 400, 3, "a field or parameter has the wrong type")                 \
    X(FIELD_RANGE, "field_range", 400, 3, "a field or parameter is out of range")                  \
    X(NOT_FOUND, "not_found", 404, 5, "there is nothing at this path")                             \
    X(DENIED, "denied", 403, 7, "this needs the rights of an operator")                            \
    X(CROSS_ORIGIN, "cross_origin", 403, 7, "a page of another origin may not send this request")  \
    X(WRONG_TIER, "wrong_tier", 409, 9, "the name is in use in the other tier")                    \
    X(TIER_NOT_SERVED, "tier_not_served", 501, 12, "this tier is not served here")                 \
    X(EVENTS_TRIMMED, "events_trimmed", 410, 11, "the events after this id are no longer kept")    \
    X(REQUEST_TIMEOUT, "request_timeout", 408, 4, "the request did not arrive in time")            \
    X(ANSWER_TOO_LARGE, "limit_answer", 429, 8, "the answer is too large; use a lower limit")      \
    X(TOO_MANY_SNAPSHOTS, "limit_snapshots", 429, 8,                                               \
      "this node already sends its maximum number of snapshots; wait, or use another node")        \
    X(BODIES_TOO_LARGE, "limit_bodies", 429, 8,                                                    \
      "the unfinished requests of a connection have at most 4,194,304 bytes together")             \
    X(MESSAGE_TOO_LARGE, "limit_message", 413, 8, "a gRPC message has at most 262,144 bytes")      \
    X(PROTO_MALFORMED, "proto_malformed", 400, 3,                                                  \
      "the message cannot be decoded, or a text in it is not UTF-8 or holds a NUL")                \
    X(GRPC_TIMEOUT, "grpc_timeout", 400, 3,                                                        \
      "grpc-timeout is 1 to 8 digits and one of H, M, S, m, u, n")                                 \
    X(GRPC_ENCODING, "grpc_encoding", 415, 12,                                                     \
      "compressed messages are not supported; send them with grpc-encoding: identity")             \
    X(GRPC_FRAMING, "grpc_framing", 400, 13,                                                       \
      "the call's bytes are not one message with its prefix")                                      \
    X(GRPC_METHOD, "grpc_method", 404, 12, "no such service or method")                            \
    X(DEADLINE, "deadline_exceeded", 504, 4,                                                       \
      "the call's deadline has passed; the request is cancelled")                                  \
    X(BACKEND_UNAVAILABLE, "backend_unavailable", 503, 14,                                         \
      "the Redis behind the tier EFFICIENCY does not answer; nothing was done, try again")         \
    X(TOO_MANY_COUNTERS, "limit_counters", 429, 8, "the cluster holds at most 10,000 counters")    \
    X(TRANSACT_TOO_LARGE, "limit_transaction", 413, 8,                                             \
      "a transaction has at most 64 keys, 64 changes and 160 KiB (40 KiB until all nodes are "     \
      "upgraded)")                                                                                 \
    X(NOT_UPGRADED, "not_upgraded", 503, 9,                                                        \
      "a member of the cluster runs an older version of Holdfast, which does not support this; "   \
      "nothing was done; upgrade all members")                                                     \
    X(FENCE_NOT_FOUND, "fence_not_found", 404, 5,                                                  \
      "the fence has no mark for this resource and slot; there is nothing to reset")               \
    X(TOKEN_NOT_ISSUED, "token_not_issued", 400, 3,                                                \
      "no grant has this fencing token; a mark cannot be above the tokens issued so far")          \
    X(TOO_MANY_CLIENTS, "limit_clients", 503, 14,                                                  \
      "this node has as many client connections as it may have, and none is idle; nothing was "    \
      "done; try another node, or again later")                                                    \
    X(STATE_FULL, "state_full", 429, 8,                                                            \
      "the state has reached its limit (state-max); nothing was done; release what is not "        \
      "needed, or raise state-max on all nodes")                                                   \
    X(INVALID_TRACE, "invalid_trace", 400, 3,                                                      \
      "a trace is a W3C traceparent: 00-TRACE_ID-PARENT_ID-FLAGS in lower-case hexadecimal")       \
    X(UNAUTHENTICATED, "unauthenticated", 401, 16,                                                 \
      "a valid token or client certificate is required; nothing was done")                         \
    X(POLICY_STALE, "policy_stale", 503, 14,                                                       \
      "this node has had no leader for 10 s, so its policy may be old; nothing was done; try "     \
      "another node")                                                                              \
    X(POLICY_CONFLICT, "policy_conflict", 409, 10,                                                 \
      "the policy has another version than the change was made for; nothing was done; read it "    \
      "again")                                                                                     \
    X(POLICY_NOT_FOUND, "policy_not_found", 404, 5,                                                \
      "the policy has no such tenant, principal or token")                                         \
    X(POLICY_EXISTS, "policy_exists", 409, 6, "the policy has this entry already")                 \
    X(INVALID_POLICY, "invalid_policy", 400, 3, "the policy is not valid; nothing was done")       \
    X(POLICY_FULL, "limit_policy", 429, 8,                                                         \
      "the policy has at most 1,024 tenants, 10,000 principals, 20,000 tokens, 64 grants and "     \
      "64 tokens a principal, 128 administrators of the cluster, 1,024 barred certificates and "   \
      "32 MiB of grants; nothing was done")                                                        \
    X(QUOTA, "quota_exceeded", 429, 8, "the tenant has reached a quota; nothing was done")         \
    X(MISDIRECTED, "misdirected", 421, 9,                                                          \
      "the name in Host is not one of this node (server-names); nothing was done")                 \
    X(TOKEN_MISMATCH, "token_mismatch", 409, 9,                                                    \
      "no holder of the name has this token (if_token); nothing was done; look at the lock again") \
    X(INVALID_HOLD, "invalid_max_hold", 400, 3, "max_hold is out of range (100 ms to 31 days)")    \
    X(INVALID_ALERT, "invalid_alert", 400, 3,                                                      \
      "a long-held rule has a prefix of at most 512 bytes of UTF-8 without control characters "    \
      "and "                                                                                       \
      "a duration of 1 s to 31 days")                                                              \
    X(ALERT_NOT_FOUND, "alert_not_found", 404, 5,                                                  \
      "the tenant has no long-held rule of this prefix")                                           \
    X(TOO_MANY_ALERTS, "limit_alerts", 429, 8,                                                     \
      "a tenant has at most 256 long-held rules; remove one first")                                \
    X(EVENT_LOG, "event_log_unavailable", 503, 14,                                                 \
      "this node has no event log that can be read; nothing was done; try another node")           \
    X(LOCK_ID, "lock_id_mismatch", 409, 9,                                                         \
      "the name is not held with this lock ID: it was released, forced open, has expired, or "     \
      "another run holds it; nothing was done; `holdfast show` has the holder")

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
