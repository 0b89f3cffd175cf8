/*
 * plant_server.h - an HTTP server of this machine's files, on loopback, that is slow or refuses. It
 * is a process of its own.
 */
#ifndef PLANT_SERVER_H
#define PLANT_SERVER_H

#include <iter/status.h>

typedef struct plant_server plant_server;

/**
 * Serves files until plant_server_stop(), or until this process ends. A random word in each URL
 * keeps others out. To be called before there are threads.
 *
 *   latency_s    each answer to GET begins so much later; 0 = at once
 *   most_a_s     answers to GET a second; what is above is refused (503); 0 = no limit
 *
 * Errors  EIO (no socket, no process), ENOMEM.
 */
iter_status plant_server_start(double latency_s, double most_a_s, plant_server **out,
                               iter_error *err);
void plant_server_stop(plant_server *server); /* NULL is ignored */

/** "http://127.0.0.1:4711/1f6b...": what comes before an absolute path. */
const char *plant_server_url(const plant_server *server);

#endif
