/* What `acquire`, `renew`, `release` and `session` share: the lease as text, requests that are repeated
 * with the same id, and output for a shell.
 *
 * A lease is "hf1.TOKEN.LEASE_ID", as hf_lock_export writes it. Whoever has it can renew and release
 * the lock, so commands read it from the environment, which other users cannot see. */
#ifndef HOLDFAST_CLI_LEASE_H
#define HOLDFAST_CLI_LEASE_H

#include "cli/api.h"

enum { LEASE_CLIENT = 300, LEASE_ID_TEXT = 64, LEASE_TEXT = 96, LEASE_TTL_MS = 30000 };

struct lease {
    uint64_t token;
    char id[LEASE_ID_TEXT];
};

/* NULL: from HOLDFAST_LEASE. False: prints the problem; the exit code is EXIT_USAGE. */
bool lease_read(const char *command, const char *text, struct lease *out);
/* Writes fencing_token and lease_id. */
void lease_put(const struct lease *l, struct json_writer *w);
/* `ttl_ms` 0: as before. On success returns 0; *until_ms as lease_until_ms, answer to be closed.
 * EXIT_LOST: it is no longer held; the answer has the reason, and is to be closed. Else prints
 * nothing, and there is nothing to close; see api.h. */
int lease_renew(struct api *api, const struct lease *l, uint64_t ttl_ms, int64_t *until_ms,
                struct api_answer *answer);
/* The same for a release. A lock that was released before counts as released. */
int lease_release(struct api *api, const struct lease *l, struct api_answer *answer);

/* Until when something is certainly held, on clock_boot_ms, by the answer to a request that was sent
 * at `sent_ms` (S5.2). */
int64_t lease_until_ms(int64_t sent_ms, const struct json_t *answer);

/* As api_call, but a request that may have been executed is repeated, until the timeout. Prints
 * nothing. */
int lease_call(struct api *api, const struct cli_request *request, struct api_answer *answer);
/* Prints why lease_call failed; returns the exit code. */
int lease_fail(const struct api *api, const char *what, int code);

/* Client id and metadata of a script: the process that started this command. With a request id of
 * the caller, a repetition has another parent: the same without the process. */
void lease_client(const char *given, const char *request_id, char out[LEASE_CLIENT]);
void lease_put_metadata(const char *request_id, struct json_writer *w);

/* ---- Output for `eval` ---- */

/* NAME='VALUE', quoted for every POSIX shell. */
void shell_put(const char *name, const char *value);
/* NAME='SECONDS', as in /proc/uptime. */
void shell_put_until(const char *name, int64_t until_ms);
/* After a failure: makes `eval "$(holdfast ...)"` fail with that code. */
void shell_put_failure(int code);
/* False: stdout could not be written. */
bool shell_flush(void);

#endif
