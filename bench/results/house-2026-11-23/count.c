/*
 * count.c - one epoch without workers, for counting the instructions inside iter_loader_next().
 *
 *     cc -O2 count.c $(pkg-config --cflags --libs iter) -o count
 *     ITER_CPU=avx2 valgrind --tool=callgrind --toggle-collect=iter_loader_next \
 *         ./count DATA CHAIN SHUFFLE SOURCE
 *
 * SHUFFLE and SOURCE are numbers of iter_shuffle and iter_source.
 */
#include <iter/iter.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    iter_error err = {ITER_OK, ""};
    iter_dataset *data;
    iter_chain *chain = NULL;
    iter_loader *loader;
    iter_batch *batch;
    iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
    if (argc != 5) return 2;
    opt.batch_size = 64, opt.seed = 7, opt.epochs = 1, opt.lookahead = ITER_LOOKAHEAD_EPOCH;
    opt.shuffle = atoi(argv[3]), opt.reading.source = atoi(argv[4]);
    if (iter_dataset_open(argv[1], NULL, &data, &err) < 0 ||
        (argv[2][0] && iter_chain_parse(argv[2], NULL, &chain, &err) < 0) ||
        iter_dataloader_create(data, chain, &opt, &loader, &err) < 0) {
        puts(err.message);
        return 1;
    }
    int n = 0;
    for (; iter_loader_next(loader, &batch, &err) == ITER_OK; n++)
        iter_batch_unref(batch);
    printf("%d batches\n", n);
    iter_loader_unref(loader);
    return 0;
}
