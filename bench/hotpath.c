/* The hot path of a lone node: 64 connections acquire and release new names over one protocol.
 *
 *     hotpath http|grpc|resp [auth]      auth: with auth = on and a token
 *
 * bench/hotpath.py counts the instructions of the function `measured`. It contains the node's part of
 * each pair: bytes in, request, command, batch, log entry, state, answer, bytes out. There are no
 * sockets, and the disk is memory. The clients' part is outside. */
#include <stdio.h>

#include "base/panic.h"
#include "hotpath_client.h"
#include "hotpath_node.h"
#include "service/http/http_api.h"
#include "service/resp/api.h"

enum { WARM_ROUNDS = 20, ROUNDS = 40 };

union hotpath_connection {
    struct http_conn *http;
    struct resp_conn *resp;
};

static const struct hotpath_protocol *protocol;
static union hotpath_connection connections[HOTPATH_CLIENTS];
static struct slice requests[HOTPATH_CLIENTS];

static void on_ready(void *owner)
{
    (void)owner;
}

static void receive(unsigned client)
{
    if (protocol->is_redis) {
        resp_conn_receive(connections[client].resp, requests[client]);
    } else {
        http_conn_receive(connections[client].http, requests[client]);
    }
}

static struct slice output(unsigned client)
{
    return protocol->is_redis ? resp_conn_output(connections[client].resp)
                              : http_conn_output(connections[client].http);
}

static void written(unsigned client)
{
    if (protocol->is_redis) {
        resp_conn_written(connections[client].resp, output(client).len);
    } else {
        http_conn_written(connections[client].http, output(client).len);
    }
}

/* The node receives the requests of all clients and answers them. */
static void serve(void)
{
    for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
        receive(i);
    }
    hotpath_node_run();
}

static void sent(void)
{
    for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
        written(i);
    }
}

/* The name is known to bench/hotpath.py. */
__attribute__((noinline)) static void measured(void (*step)(void))
{
    step();
}

static void run(void (*step)(void), bool is_measured)
{
    if (is_measured) {
        measured(step);
    } else {
        step();
    }
}

static void serve_all(bool is_measured)
{
    run(serve, is_measured);
    for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
        protocol->take(i, output(i));
    }
    run(sent, is_measured);
}

static void run_rounds(unsigned first, unsigned count, bool is_measured)
{
    char name[64];
    for (unsigned round = first; round < first + count; round++) {
        for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
            snprintf(name, sizeof(name), "bench/%u/%u", round, i);
            requests[i] = protocol->acquire(i, name);
        }
        serve_all(is_measured);
        for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
            snprintf(name, sizeof(name), "bench/%u/%u", round, i);
            requests[i] = protocol->release(i, name);
        }
        serve_all(is_measured);
    }
}

static void open_clients(void)
{
    for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
        if (protocol->is_redis) {
            struct resp_conn_options options = {.ready = on_ready, .address = "127.0.0.1:40312"};
            connections[i].resp = resp_conn_new(hotpath_node_service(), &options);
        } else {
            struct http_conn_options options = {.ready = on_ready};
            connections[i].http = http_conn_new(hotpath_node_service(), &options);
        }
        requests[i] = protocol->open(i);
        if (requests[i].len > 0) {
            receive(i);
            protocol->take(i, output(i));
            written(i);
        }
    }
}

static void close_clients(void)
{
    for (unsigned i = 0; i < HOTPATH_CLIENTS; i++) {
        if (protocol->is_redis) {
            resp_conn_close(connections[i].resp);
        } else {
            http_conn_close(connections[i].http);
        }
        protocol->close(i);
    }
}

int main(int argc, char **argv)
{
    static const struct hotpath_protocol *const all[] = {&hotpath_http, &hotpath_grpc,
                                                         &hotpath_resp};
    bool has_auth = argc == 3 && strcmp(argv[2], "auth") == 0;
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]) && (argc == 2 || has_auth); i++) {
        protocol = strcmp(argv[1], all[i]->name) == 0 ? all[i] : protocol;
    }
    if (protocol == NULL) {
        fprintf(stderr, "usage: hotpath http|grpc|resp [auth]\n");
        return 2;
    }
    hotpath_secret = has_auth ? "hf_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG" : "";
    hotpath_node_open(hotpath_secret);
    open_clients();
    run_rounds(0, WARM_ROUNDS, false);
    run_rounds(WARM_ROUNDS, ROUNDS, true);
    close_clients();
    hotpath_node_run();
    hotpath_node_close();
    printf("%d pairs\n", HOTPATH_CLIENTS * ROUNDS);
    return 0;
}
