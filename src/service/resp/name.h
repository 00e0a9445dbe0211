/* Keys and channels of Redis clients as names (decision 37). A key is any 1 to 512 bytes, in one of 16
 * databases. A name is text, and all APIs have one space of names.
 *
 *   database 0, a key that can be a name   the key itself
 *   every other key                        redis:DATABASE/KEY, percent-encoded
 *   a sharded channel                      redis:0/%shard/CHANNEL, percent-encoded
 *
 * A key that begins as such a name does is encoded, too. So different keys have different names. */
#ifndef HOLDFAST_SERVICE_RESP_NAME_H
#define HOLDFAST_SERVICE_RESP_NAME_H

#include "base/limits.h"
#include "base/slice.h"

enum {
    RESP_DATABASES = 16,
    RESP_KEY_MAX = 512,
    RESP_NAME_BYTES = sizeof("redis:0/%shard/") - 1 + 3 * RESP_KEY_MAX,
};

/* The name of a key, in `out` or the key itself. False: the key is empty, or too long as a name. */
bool resp_name_of_key(uint32_t database, struct slice key, uint8_t out[RESP_NAME_BYTES],
                      struct slice *name);
/* The key of a name, in `out` or the name itself. False: it is no key of this database. */
bool resp_key_of_name(uint32_t database, struct slice name, uint8_t out[RESP_KEY_MAX],
                      struct slice *key);
/* Channels are not in a database, and are any text as they are. */
bool resp_name_of_channel(struct slice channel, uint8_t out[RESP_NAME_BYTES], struct slice *name);
struct slice resp_channel_of_name(struct slice name, uint8_t out[RESP_KEY_MAX]);
/* A sharded channel is not the ordinary one of that name. False: empty or too long. */
bool resp_name_of_shard(struct slice channel, uint8_t out[RESP_NAME_BYTES], struct slice *name);
/* False: not the name of a sharded channel. */
bool resp_shard_of_name(struct slice name, uint8_t out[RESP_KEY_MAX], struct slice *channel);
/* What the names of all keys of a database begin with; empty for database 0. */
struct slice resp_name_prefix(uint32_t database);

#endif
