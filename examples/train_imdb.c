/*
 * train_imdb.c - film reviews, positive or negative, with the recurrent network of the "Rosetta
 * Stone" comparison (github.com/ilkarman/DeepLearningFrameworks), with its settings: the last 150
 * words of a review among the 30,000 most frequent ones, padded with zeros, an embedding of 125, a
 * GRU of 100, its last state; batch 64, Adam with rate 0.001, three epochs. Published accuracy:
 * about 85 %.
 *
 *     train_imdb --data "imdb:data/aclImdb?split=train"
 */
#include "train_common.h"

static const train_program program = {
    .name = "train_imdb",
    .about = "trains the published recurrent network on film reviews",
    .models = {{"gru", "gru"}, {NULL, NULL}}, /* iter_model_preset() has its text */
    .optimizer = "adam:lr=0.001",
    .epochs = 3,
    .format = "imdb",
    .folder = "aclImdb",
    .layouts = "nt|tn",
    .chains = {"", "tnc"},
    .generate = train_generate_imdb,
};

int main(int argc, char **argv) {
    return train_main(argc, argv, &program);
}
