/* One TLS connection without a socket: received bytes in, plain bytes out, and the reverse.
 *
 *      HANDSHAKE ──verified──▶ OPEN ──close_notify received──▶ ENDED
 *          └──────────┬──────────┴─────────────────────────────▶ FAILED
 *
 * All functions append to `wire` what must be sent: handshake messages, records, alerts. No plain
 * byte is returned before the other end is verified as the context's role requires, and the
 * identity is available by then. An idle session holds no buffers. */
#ifndef HOLDFAST_TLS_SESSION_H
#define HOLDFAST_TLS_SESSION_H

#include "base/buffer.h"
#include "base/peer_identity.h"
#include "tls/context.h"

enum tls_state { TLS_HANDSHAKE, TLS_OPEN, TLS_ENDED, TLS_FAILED };

/* The largest that a peer's handshake may need before it is complete: a chain of certificates. */
#define TLS_HANDSHAKE_MAX (64u << 10)

/* Two records: one that was incomplete, one that is reserved before its length is known. */
#define TLS_PLAIN_SPARE (36u << 10)

struct tls_session;

/* `server_name`, for TLS_CLIENT only and then required: the DNS name or IP address that the
 * certificate must have as a subject alternative name. NULL for other roles. */
struct tls_session *tls_session_new(struct tls_context *context, const char *server_name);
void tls_session_free(struct tls_session *s);

/* `bytes` are what was received since the last call. A client begins the handshake when this is
 * called with no bytes. `plain` must have space for bytes.len + TLS_PLAIN_SPARE. */
enum tls_state tls_session_receive(struct tls_session *s, struct slice bytes, struct buffer *plain,
                                   struct buffer *wire);
/* Only while OPEN, or ENDED: the other end has only ended its own direction. */
bool tls_session_write(struct tls_session *s, struct slice plain, struct buffer *wire);
/* Appends close_notify. */
void tls_session_end(struct tls_session *s, struct buffer *wire);

enum tls_state tls_session_state(const struct tls_session *s);
/* Why it FAILED, for the log; never contains secrets. */
const char *tls_session_problem(const struct tls_session *s);
/* FAILED because the first byte is not one of TLS. */
bool tls_session_is_clear_text(const struct tls_session *s);

/* Once OPEN. NULL: the other end presented no certificate. Valid until tls_session_free. */
const struct peer_identity *tls_session_identity(const struct tls_session *s);
/* "" if none was negotiated. */
const char *tls_session_protocol(const struct tls_session *s);
bool tls_session_is_resumed(const struct tls_session *s);
/* "TLSv1.3", "TLSv1.2". */
const char *tls_session_version(const struct tls_session *s);

#endif
