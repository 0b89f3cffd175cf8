/* packing_plan.c - see packing_plan.h. */
#include "iter/dataset/packing_plan.h"

#include <string.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "iter/core/permutation.h"
#include "iter/core/slot_set.h"

#define NONE UINT32_MAX

/* Memory to pack a group with. */
typedef struct packer {
    uint64_t *documents;   /* [group] as dealt, then by length, the longest first */
    uint32_t *lengths;     /* [group] units to pack of documents[i] */
    uint32_t *sorted;      /* [group] places in these */
    uint32_t *counts;      /* [length + 2] */
    iter__slot_set rooms;  /* of the open rows */
    uint32_t *with_room;   /* [length + 1] a row with that room; NONE = none */
    uint32_t *next_row;    /* [group] another row with the same room */
    uint32_t *last;        /* [group] last piece of a row */
    uint32_t *before;      /* [group] the piece before it in its row; NONE = none */
    uint32_t *n_pieces;    /* [group] of a row */
    uint16_t *table;       /* of the permutation, if documents are few */
    uint64_t room_of_plan; /* elements of plan->first */
} packer;

static void packer_free(packer *p) {
    iter__free(p->documents);
    iter__free(p->lengths);
    iter__free(p->sorted);
    iter__free(p->counts);
    iter__slot_set_free(&p->rooms);
    iter__free(p->with_room);
    iter__free(p->next_row);
    iter__free(p->last);
    iter__free(p->before);
    iter__free(p->n_pieces);
    iter__free(p->table);
}

static bool packer_make(packer *p, uint32_t length, uint32_t group, uint64_t n) {
    p->documents = iter__alloc(group, sizeof(*p->documents));
    p->lengths = iter__alloc(group, sizeof(*p->lengths));
    p->sorted = iter__alloc(group, sizeof(*p->sorted));
    p->counts = iter__alloc((size_t)length + 2, sizeof(*p->counts));
    p->with_room = iter__alloc((size_t)length + 1, sizeof(*p->with_room));
    p->next_row = iter__alloc(group, sizeof(*p->next_row));
    p->last = iter__alloc(group, sizeof(*p->last));
    p->before = iter__alloc(group, sizeof(*p->before));
    p->n_pieces = iter__alloc(group, sizeof(*p->n_pieces));
    p->table = iter__alloc(n <= ITER_PERMUTATION_TABLE ? (size_t)n : 1, sizeof(*p->table));
    const bool has_rooms = iter__slot_set_make(&p->rooms, length + 1);
    return p->documents && p->lengths && p->sorted && p->counts && p->with_room && p->next_row &&
           p->last && p->before && p->n_pieces && p->table && has_rooms;
}

/* ---- One group ------------------------------------------------------------------------------- */

/* Makes room for one more cut, doubling. */
static iter_status add_cut(iter__pack_plan *plan, uint64_t document, uint64_t n_rows,
                           iter_error *err) {
    if ((plan->n_cuts & (plan->n_cuts - 1)) == 0) {
        iter__pack_cut *more = iter__realloc(
            plan->cuts, (size_t)(plan->n_cuts ? 2 * plan->n_cuts : 1) * sizeof(*more));
        if (!more) return iter__fail(err, ITER_ENOMEM, "out of memory");
        plan->cuts = more;
    }
    plan->cuts[plan->n_cuts++] = (iter__pack_cut){(uint32_t)document, n_rows};
    return ITER_OK;
}

/* Keeps the units to pack of documents[0..n) that have any; *out_n = how many. Cuts the long ones:
 * first_row is how many rows they have until numbers are known. */
static iter_status look_at(iter__pack_plan *plan, packer *p, uint32_t n, uint32_t *out_n,
                           iter_error *err) {
    const uint32_t length = plan->rule.length;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t document = p->documents[i];
        const int64_t units = plan->units(plan->user, document);
        plan->n_empty += units <= 0;
        if (units <= 0) continue;
        if (units > length && plan->rule.refuses)
            return iter__fail(err, ITER_EINVAL,
                              "document %llu takes %lld places of a row, which has %u; long=split "
                              "cuts such documents",
                              (unsigned long long)document, (long long)units, length);
        plan->n_units += (uint64_t)units;
        if (units > length) ITER_TRY(add_cut(plan, document, (uint64_t)units / length, err));
        if (units % length == 0 && units > length) continue;
        p->documents[kept] = document;
        p->lengths[kept++] = units > length ? (uint32_t)(units % length) : (uint32_t)units;
    }
    *out_n = kept;
    return ITER_OK;
}

/* Places by length, the longest first; of equal ones as dealt. */
static void sort(packer *p, uint32_t length, uint32_t n) {
    memset(p->counts, 0, ((size_t)length + 2) * sizeof(*p->counts));
    for (uint32_t i = 0; i < n; i++)
        p->counts[length - p->lengths[i] + 1]++;
    for (uint32_t l = 0; l <= length; l++)
        p->counts[l + 1] += p->counts[l];
    for (uint32_t i = 0; i < n; i++)
        p->sorted[p->counts[length - p->lengths[i]]++] = i;
}

static void add_room(packer *p, uint32_t row, uint32_t room) {
    if (p->with_room[room] == NONE) iter__slot_set_add(&p->rooms, room);
    p->next_row[row] = p->with_room[room];
    p->with_room[room] = row;
}

/* Takes a row with the least room for `units`; NONE = there is none. */
static uint32_t take_row(packer *p, uint32_t units, uint32_t *out_room) {
    const uint32_t room = iter__slot_set_next(&p->rooms, units);
    if (room == ITER_SLOT_NONE) return NONE;
    const uint32_t row = p->with_room[room];
    p->with_room[room] = p->next_row[row];
    if (p->with_room[room] == NONE) iter__slot_set_remove(&p->rooms, room);
    *out_room = room;
    return row;
}

static uint32_t fill_rows(packer *p, uint32_t length, uint32_t n) {
    uint32_t n_rows = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t piece = p->sorted[k], units = p->lengths[piece];
        uint32_t room = length, row = take_row(p, units, &room);
        if (row == NONE) {
            row = n_rows++;
            p->last[row] = NONE;
            p->n_pieces[row] = 0;
        }
        p->before[piece] = p->last[row];
        p->last[row] = piece;
        p->n_pieces[row]++;
        if (room > units) add_room(p, row, room - units);
    }
    for (uint32_t room; (room = iter__slot_set_next(&p->rooms, 0)) != ITER_SLOT_NONE;) {
        p->with_room[room] = NONE; /* the next group's rows are others */
        iter__slot_set_remove(&p->rooms, room);
    }
    return n_rows;
}

/* Appends the group's rows to the plan. */
static iter_status write_rows(iter__pack_plan *plan, packer *p, uint32_t n_rows, iter_error *err) {
    if (plan->n_packed + n_rows + 1 > p->room_of_plan) {
        const uint64_t room = (plan->n_packed + n_rows + 1) + p->room_of_plan / 2;
        uint32_t *more = iter__realloc(plan->first, (size_t)room * sizeof(*more));
        if (!more) return iter__fail(err, ITER_ENOMEM, "out of memory");
        plan->first = more;
        p->room_of_plan = room;
    }
    if (plan->n_packed == 0) plan->first[0] = 0;
    for (uint32_t row = 0; row < n_rows; row++) {
        uint32_t end = plan->first[plan->n_packed] + p->n_pieces[row];
        plan->most = iter__max_u32(plan->most, p->n_pieces[row]);
        plan->first[++plan->n_packed] = end;
        for (uint32_t piece = p->last[row]; piece != NONE; piece = p->before[piece])
            plan->pieces[--end] = (uint32_t)p->documents[piece];
    }
    return ITER_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

static iter_status pack(iter__pack_plan *plan, packer *p, uint64_t n, iter_error *err) {
    iter__permutation order;
    const uint32_t length = plan->rule.length;
    iter__permutation_init(&order, plan->rule.key, plan->rule.epoch, n, p->table);
    memset(p->with_room, 0xff, ((size_t)length + 1) * sizeof(*p->with_room));
    for (uint64_t at = 0; at < n; at += plan->rule.group) {
        const uint32_t dealt = (uint32_t)iter__min_u64(n - at, plan->rule.group);
        uint32_t kept = 0;
        if (plan->rule.stop && atomic_load_explicit(plan->rule.stop, memory_order_relaxed))
            return ITER_ECANCELED; /* it is not wanted any more */
        iter__permutation_run(&order, at, dealt, p->documents);
        ITER_TRY(look_at(plan, p, dealt, &kept, err));
        sort(p, length, kept);
        ITER_TRY(write_rows(plan, p, fill_rows(p, length, kept), err));
    }
    plan->n_rows = plan->n_packed;
    for (uint64_t i = 0; i < plan->n_cuts; i++) {
        const uint64_t n_whole = plan->cuts[i].first_row;
        plan->cuts[i].first_row = plan->n_rows;
        plan->n_rows += n_whole;
        plan->most = iter__max_u32(plan->most, 1);
    }
    return ITER_OK;
}

iter_status iter__pack_plan_make(iter__pack_plan *plan, const iter__pack_rule *rule, uint64_t n,
                                 int64_t (*units)(const void *user, uint64_t document),
                                 const void *user, iter_error *err) {
    *plan = (iter__pack_plan){.rule = *rule, .units = units, .user = user};
    if (n > UINT32_MAX - 1)
        return iter__fail(err, ITER_EUNSUPPORTED, "%llu documents are more than 2^32 - 2",
                          (unsigned long long)n);
    packer p = {0};
    plan->pieces = iter__alloc(n > 0 ? (size_t)n : 1, sizeof(*plan->pieces));
    iter_status status = plan->pieces && packer_make(&p, rule->length, rule->group, n)
                             ? pack(plan, &p, n, err)
                             : iter__fail(err, ITER_ENOMEM, "no memory to pack %llu documents",
                                          (unsigned long long)n);
    packer_free(&p);
    return status;
}

iter_status iter__pack_plan_spread(iter__pack_plan *plan, uint64_t n_rows, iter_error *err) {
    if (n_rows <= plan->n_rows) return ITER_OK;
    uint64_t more = n_rows - plan->n_rows;
    const size_t room = (size_t)(plan->n_packed + more + 1);
    uint32_t *first = iter__realloc(plan->first, room * sizeof(*first));
    if (!first) return iter__fail(err, ITER_ENOMEM, "no memory for %zu rows", room);
    plan->first = first;
    uint64_t to = plan->n_packed + more, row = plan->n_packed;
    plan->n_packed = to;
    plan->n_rows = n_rows;
    for (uint64_t i = 0; i < plan->n_cuts; i++)
        plan->cuts[i].first_row += more;
    for (; more > 0; row--) { /* from the last row on, and `to` never below it */
        uint32_t end = first[row];
        first[to--] = end;
        for (; more > 0 && end - 1 > first[row - 1]; more--)
            first[to--] = --end;
    }
    return ITER_OK;
}

void iter__pack_plan_free(iter__pack_plan *plan) {
    iter__free(plan->first);
    iter__free(plan->pieces);
    iter__free(plan->cuts);
    *plan = (iter__pack_plan){0};
}

uint32_t iter__pack_plan_count(const iter__pack_plan *plan, uint64_t row) {
    return row < plan->n_packed ? plan->first[row + 1] - plan->first[row] : 1;
}

iter__pack_piece iter__pack_plan_piece(const iter__pack_plan *plan, uint64_t row, uint32_t i) {
    const uint32_t length = plan->rule.length;
    if (row < plan->n_packed) {
        const uint64_t document = plan->pieces[plan->first[row] + i];
        const uint64_t units = (uint64_t)plan->units(plan->user, document);
        const uint64_t first = units > length ? units - units % length : 0;
        return (iter__pack_piece){document, first, (uint32_t)(units - first)};
    }
    uint64_t low = 0, high = plan->n_cuts; /* the last cut whose first row is not above `row` */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (plan->cuts[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    const iter__pack_cut *cut = &plan->cuts[low];
    return (iter__pack_piece){cut->document, (row - cut->first_row) * length, length};
}
