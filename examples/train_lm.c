/*
 * train_lm.c - a small language model: an embedding of 128, a GRU of 128 over every step, and a
 * softmax over the words that has the embedding's weights (Press & Wolf 2017). Documents are packed
 * into rows of 256 tokens; where one ends and the next begins, the GRU's state is zeros again. The
 * loss is the mean over tokens, in nats: exp(loss) is the perplexity.
 *
 *     python3 examples/python/tokenize_words.py data/imdb-words data/aclImdb
 *     train_lm --data "pack:{tokens:data/imdb-words/train.idx?documents=whole}?length=256"
 *              --test "pack:{tokens:data/imdb-words/test.idx?documents=whole}?length=256"
 *
 * "stream" is the same network for rows without segments, such as "tokens:train.bin?length=256";
 * the chain makes its ids and targets i32. Ids are below 8,192; --network says otherwise.
 */
#include "train_common.h"

static const train_program program = {
    .name = "train_lm",
    .about = "trains a small language model on packed documents",
    .models = {{"gru", "embedding:8192,128 | gru:128,segments=yes | tied-softmax"},
               {"stream", "embedding:8192,128 | gru:128 | tied-softmax"},
               {NULL, NULL}},
    .optimizer = "adam:lr=0.002",
    .epochs = 1,
    .batch = 16,
    .folder = "imdb-words",
    .spec = "pack:{tokens:\"%s/%s.idx\"?documents=whole}?length=256",
    .layouts = "nt|tn",
    .chains = {"cast:i32 | cast:i32,field=label", "cast:i32 | cast:i32,field=label | tnc"},
    .tokens = true,
    .generate = train_generate_documents,
};

int main(int argc, char **argv) {
    return train_main(argc, argv, &program);
}
