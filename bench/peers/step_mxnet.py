"""MXNet training: the published CNN and GRU by replayed batches, the MLP's epochs by gluon's and Module's loaders."""
import mxnet as mx
from mxnet import autograd, gluon

from peer_common import Epochs, Steps, cs224, step_data

nn = gluon.nn


def conv(channels, inputs, activation=None):
    return nn.Conv2D(channels, 3, padding=1, in_channels=inputs, activation=activation)


def cnn_net():
    net = nn.HybridSequential()
    net.add(conv(50, 3, "relu"), conv(50, 50), nn.MaxPool2D(2, 2), nn.Activation("relu"), nn.Dropout(.25),
            conv(100, 50, "relu"), conv(100, 100), nn.MaxPool2D(2, 2), nn.Activation("relu"), nn.Dropout(.25),
            nn.Flatten(), nn.Dense(512, activation="relu"), nn.Dropout(.5), nn.Dense(10))
    return net


class Gru(gluon.HybridBlock):
    """Ids [T, N]. The final state is the last output; taking it out of all outputs crashes in 1.9.1 on the CPU."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.embedding, self.out = nn.Embedding(30000, 125), nn.Dense(2)
            self.gru = gluon.rnn.GRU(100, 1, layout="TNC", input_size=125)

    def hybrid_forward(self, F, x):
        _, states = self.gru(self.embedding(x), [F.zeros((1, 64, 100))])
        return self.out(states[0].reshape((64, 100)))


def stepper(net, trainer, loss_of, rows=None):
    def step(x, y):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(rows or x.shape[0])
        return loss.mean().asscalar()
    return step


def made(net, *optimizer):
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    return net, gluon.Trainer(net.collect_params(), *optimizer)


def cnn(row):
    net, trainer = made(cnn_net(), "sgd", dict(learning_rate=.01, momentum=.9))
    data = [(mx.nd.array(x), mx.nd.array(y)) for x, y in step_data("cnn")]
    return Steps(stepper(net, trainer, gluon.loss.SoftmaxCrossEntropyLoss()), data)


def gru(row):
    net, trainer = made(Gru(), "adam", dict(learning_rate=1e-3))
    data = [(mx.nd.array(x.T), mx.nd.array(y)) for x, y in step_data("gru")]
    return Steps(stepper(net, trainer, gluon.loss.SoftmaxCrossEntropyLoss(), 64), data)


class Pairs:
    """NDArrayIter as pairs, from its beginning."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        self.iterator.reset()
        return ((batch.data[0], batch.label[0]) for batch in self.iterator)


def mlp(row):
    x, y = cs224()
    net = nn.HybridSequential()
    net.add(nn.Dense(300, activation="relu"), nn.Dense(100, activation="relu"), nn.Dense(1))
    net, trainer = made(net, "adam")
    step = stepper(net, trainer, gluon.loss.L2Loss())
    if row.name.startswith("mlp-ndarrayiter"):
        return Epochs(step, lambda: Pairs(mx.io.NDArrayIter(x, y, 256)), len(x))
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(mx.nd.array(x), mx.nd.array(y)), 256, num_workers=row.workers)
    return Epochs(lambda a, b: step(a.as_in_context(mx.cpu()), b.as_in_context(mx.cpu())), lambda: loader, len(x))


def mlp_module(row):
    """What Module.fit does with a batch, one call after another."""
    x, y = cs224()
    out = mx.sym.Variable("data")
    for units in (300, 100):
        out = mx.sym.Activation(mx.sym.FullyConnected(out, num_hidden=units), act_type="relu")
    out = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(out, num_hidden=1), mx.sym.Variable("lin_reg_label"))
    iterator = mx.io.NDArrayIter(x, y, 256, label_name="lin_reg_label")
    module = mx.mod.Module(out, label_names=["lin_reg_label"], context=mx.cpu())
    module.bind(iterator.provide_data, iterator.provide_label)
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="adam")
    metric = mx.metric.create("mse")

    def step(data, label):
        module.forward_backward(mx.io.DataBatch([data], [label]))
        module.update()
        module.update_metric(metric, [label])
        return metric.get()[1]
    return Epochs(step, lambda: Pairs(iterator), len(x))


MAKE = {"cnn": cnn, "gru": gru, "mlp-loader": mlp, "mlp-ndarrayiter": mlp, "mlp-module": mlp_module}
