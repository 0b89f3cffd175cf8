/*
 * evidence.h - the measurements of a run as plain numbers. A verdict knows nothing else.
 *
 * Rates are samples a second, CPU times seconds a sample, shares parts of the wall time. A figure
 * that was not measured is NaN.
 */
#ifndef EVIDENCE_H
#define EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose/interval.h"

#define EVIDENCE_STAGES  24
#define EVIDENCE_WORKERS 64
#define EVIDENCE_CHANGES 6

typedef enum evidence_arm {
    EVIDENCE_READ,   /* bytes are read and not decoded */
    EVIDENCE_DECODE, /* bytes are also decoded: fields as stored, no chain */
    /* the whole loader; its consumer touches every cache line, or waits for the copy */
    EVIDENCE_LOADER,
    /* the consumer alone, over replayed batches; copied, if it is on a GPU */
    EVIDENCE_CONSUMER,
    EVIDENCE_BOTH,
    /* the consumer alone, over batches that are on its GPU already */
    EVIDENCE_RESIDENT,
    EVIDENCE_ARMS
} evidence_arm;

/* the arm in which a stage's cost first shows */
typedef enum evidence_kind {
    EVIDENCE_OF_NONE, /* waiting, idle */
    EVIDENCE_OF_READ,
    EVIDENCE_OF_DECODE,
    EVIDENCE_OF_CHAIN,
    EVIDENCE_OF_TURN /* waiting: another worker is in get() */
} evidence_kind;

typedef struct evidence_stage {
    char name[32];
    evidence_kind kind;
    double share; /* of one thread's wall time while both run, mean over workers */
} evidence_stage;

typedef struct evidence_worker {
    uint64_t chunks;
    double busy_s; /* per chunk */
    double bytes;  /* per chunk: stored size of its samples; 0 = they have none */
    double busy, wait_bytes, wait_slot, runnable;
    double stages[EVIDENCE_STAGES];
} evidence_worker;

/** Requests to servers, if the set has URLs. */
typedef struct evidence_remote {
    double answers;          /* 0 = there were none */
    double throttled, again; /* shares of them: 429 or 503; all that had to be asked again */
    double bytes;            /* of an answer, mean */
    double first_s, whole_s; /* until an answer's first byte, and its last; means */
    double cpu_s;            /* CPU time of workers for an answer, mean */
    double in_flight;        /* mean */
    int connections;         /* that may be in flight */
} evidence_remote;

/** An option that may improve the run, and rates of loader and consumer alone with it. */
typedef struct evidence_change {
    char option[24], from[160], to[160];
    bool experiment; /* the batches differ: it shows a possible gain, but fixes nothing */
    bool deeper;     /* it only adds room for more batches ahead */
    bool overlaps;   /* with it, loader and consumer run side by side */
    bool feasible;   /* it could be opened and measured */
    char why_not[160];
    double loader_ratio; /* rate with it / rate without, the loader alone */
    double consumer_ratio;
    double loader_low, loader_high; /* their intervals; NaN = there are none */
    double consumer_low, consumer_high;
    double cpu_loader, cpu_consumer;
} evidence_change;

typedef struct evidence {
    /* One loop was watched, and no arm ran alone: the consumer's rate is that of the time outside
     * next(), the loader's comes from how much of the time it was at work, and changes were not
     * tried. False = arms took turns. */
    bool passive;
    bool consumes; /* there is a consumer that takes time */
    bool trains;   /* it is a trainer on this machine's cores */
    bool reads;    /* bytes come through a source during the run */
    /* images of any size cannot be decoded without their chain, so there is no arm of decoding; the
     * stages' shares divide the time between decoding and chain */
    bool by_shares;
    int cores;
    int64_t workers; /* 0 = the loader works in the consumer's thread; -1 = nothing is known */
    uint64_t prefetch, batch, threads;
    uint32_t rounds;
    /* rounds around which the machine's speed moved; if not `steady`, they count */
    uint32_t unsteady_rounds;
    /* samples come in storage order, so one worker's may differ from another's */
    bool in_order;
    bool steady; /* the witness did not move around these rounds */
    bool has[EVIDENCE_ARMS];
    measure_interval rate[EVIDENCE_ARMS];
    double cpu[EVIDENCE_ARMS];
    /* ratios of two arms' rates, round by round */
    measure_interval loader_by_consumer, both_by_consumer, loader_by_decode, decode_by_read;
    measure_interval both_by_resident;
    double observed_s;        /* how long `both` was observed for the shares below */
    double wait_share;        /* of both: the consumer in next() */
    double consumer_runnable; /* of both: its thread wants a core and has none */
    int n_stages, n_workers;
    evidence_stage stages[EVIDENCE_STAGES];
    evidence_worker worker[EVIDENCE_WORKERS];
    double convert_s; /* per batch: time the consumer spends on turning the layout; 0 = none */
    char convert_text[64], wants[8]; /* from which layout to which; the layout that costs nothing */
    double sample_bytes;             /* mean bytes read per sample; 0 = nothing is read */
    evidence_remote remote;
    /* Batches go to a GPU: bytes of a sample that travel, and that are delivered there; the best
     * rate of the link. */
    bool to_device;
    double copy_bytes, row_bytes, link_bytes_per_s;
    int n_changes;
    evidence_change changes[EVIDENCE_CHANGES];
} evidence;

#endif
