"""redis-py for the tests of the Redis port. Debian 12 has 4.3, Debian 13 has 6.1; this hides what they do differently."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness import PATIENCE

# Errors that have a class of their own in newer versions, which then take the word off the text.
CLASSES = {
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
}


def connect(node, **options):
    """A client that sends each request once. From 6.0 on redis-py repeats a request whose connection broke, an INCR
    too, and a test could not say what was counted."""
    return redis.Redis(host="127.0.0.1", port=node.resp_port, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0),
                       **{"decode_responses": True, **options})


def error_word(error):
    """The first word of an error reply, as the node sent it."""
    for kind, word in CLASSES.items():
        if isinstance(error, kind):
            return word
    return str(error).split()[0]
