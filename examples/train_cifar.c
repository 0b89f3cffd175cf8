/*
 * train_cifar.c - CIFAR-10 with the convolutional network of the "Rosetta Stone" comparison of deep
 * learning frameworks (github.com/ilkarman/DeepLearningFrameworks), with its settings: batch 64,
 * SGD with momentum 0.9 and rate 0.01, ten epochs, Glorot's initialiser, pixels divided by 255 and
 * nothing else. Published accuracy: 75 to 79 % of the test images.
 *
 *     train_cifar --data "cifar10:data/cifar-10-batches-bin?split=train"
 */
#include "train_common.h"

static const train_program program = {
    .name = "train_cifar",
    .about = "trains the published convolutional network on CIFAR-10",
    .models = {{"cnn", "cnn"}, {NULL, NULL}}, /* iter_model_preset() has its text */
    .optimizer = "sgd:lr=0.01,momentum=0.9",
    .epochs = 10,
    .format = "cifar10",
    .folder = "cifar-10-batches-bin",
    .layouts = "nchw|nhwc",
    .chains = {"normalize | to:f32,nchw", "normalize | to:f32,nhwc"},
    .generate = train_generate_cifar,
};

int main(int argc, char **argv) {
    return train_main(argc, argv, &program);
}
