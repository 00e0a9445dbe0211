/* Prints an offline state to stdout, as text or as one JSON object. */
#ifndef HOLDFAST_SERVER_OFFLINE_SHOW_H
#define HOLDFAST_SERVER_OFFLINE_SHOW_H

#include "node/offline.h"

enum { CLUSTER_ID_TEXT = 33 };
void cluster_id_format(struct id id, char text[CLUSTER_ID_TEXT]);

/* `where`: its folder or file. */
/* The line of progress.h about what is read and written next; progress_end removes it. */
void offline_show_progress(struct offline_state *state, bool is_quiet);
void offline_show(const struct offline_state *state, const char *where);
void offline_show_json(const struct offline_state *state, const char *where);

#endif
