/*
 * train_mnist.c - handwritten digits, with a multi-layer perceptron or a small convolutional
 * network.
 *
 *     train_mnist --data "mnist:data/mnist?split=train" --model cnn --epochs 10
 *
 * Both are the networks of MXNet's MNIST tutorial: 128 and 64 units with relu, and LeNet (LeCun et
 * al. 1998) with tanh; pixels are divided by 255 and nothing else.
 */
#include "train_common.h"

static const train_program program = {
    .name = "train_mnist",
    .about = "trains a network on MNIST",
    .models = {{"mlp", "flatten | dense:128 | relu | dense:64 | relu | dense:10 | "
                       "softmax-cross-entropy"},
               {"cnn", "conv2d:20,kernel=5 | tanh | maxpool:2 | conv2d:50,kernel=5 | tanh | "
                       "maxpool:2 | flatten | dense:500 | tanh | dense:10 | "
                       "softmax-cross-entropy"},
               {NULL, NULL}},
    .optimizer = "sgd:lr=0.1",
    .epochs = 10,
    .format = "mnist",
    .folder = "mnist",
    .layouts = "nchw|nhwc",
    /* one channel: both layouts are the same */
    .chains = {"normalize | to:f32", "normalize | to:f32"},
    .generate = train_generate_mnist,
};

int main(int argc, char **argv) {
    return train_main(argc, argv, &program);
}
