"""torch: the closed form with preallocated outputs, and Opacus, which clips per-example gradients (hooks) or their norms
(ghost clipping)."""

import time
import warnings

import numpy as np
import torch
from problem import (CLASSES, CLIP_NORM, FEATURES, LEARNING_RATE, NOISE_MULTIPLIER, ROWS, padded, poisson_batch)

PEERS = ["torch-closed-form", "opacus-hooks", "opacus-ghost"]


class ClosedForm:
    chosen = "classes × rows, outputs preallocated"

    def __init__(self, problem, kind, size, threads):
        self.kind, self.size, self.threads = kind, size, threads
        rows = size if kind == "kernel" else padded(size)
        self.features, self.labels, self.norms = (
            torch.from_numpy(part) for part in (problem.features, problem.labels.astype(np.int64), problem.norms)
        )
        self.weights, self.bias = torch.zeros(CLASSES, FEATURES), torch.zeros(CLASSES, 1)
        self.scores, self.lengths = torch.empty(CLASSES * rows), torch.empty(rows)
        self.gradient, self.noise = torch.empty(CLASSES, FEATURES), torch.empty(CLASSES, FEATURES + 1)
        self.sigma, self.rate = NOISE_MULTIPLIER, LEARNING_RATE
        self.generator = np.random.default_rng(1)
        if kind == "kernel":
            self.one_hot = torch.from_numpy(np.ascontiguousarray(problem.one_hot(size).T))
        else:
            self.drawn = torch.empty(rows, FEATURES)

    def round(self):
        if self.kind == "kernel":
            count, norms = self.size, self.norms[: self.size]
            features = self.features[:count]
        else:
            indices = torch.from_numpy(poisson_batch(self.generator, self.size))
            count, norms = len(indices), self.norms[indices]
            features = torch.index_select(self.features, 0, indices, out=self.drawn[:count])
        scores = self.scores[: CLASSES * count].view(CLASSES, count)
        lengths = self.lengths[:count]
        torch.addmm(self.bias, self.weights, features.t(), out=scores)
        torch.softmax(scores, 0, out=scores)
        if self.kind == "kernel":
            scores.sub_(self.one_hot)
        else:
            scores.scatter_add_(0, self.labels[indices][None], torch.full((1, count), -1.0))
        torch.linalg.vector_norm(scores, dim=0, out=lengths)
        scores.div_(lengths.mul_(norms).clamp_(min=1))
        torch.mm(scores, features, out=self.gradient)
        self.noise.normal_()
        if self.sigma != 1:
            self.noise.mul_(self.sigma)
        rate = self.rate / self.size
        self.weights.sub_(self.gradient.add_(self.noise[:, :FEATURES]), alpha=rate)
        self.bias.sub_(scores.sum(1, keepdim=True).add_(self.noise[:, FEATURES:]), alpha=rate)

    @torch.inference_mode()
    def run(self, rounds):
        torch.set_num_threads(self.threads)
        for _ in range(rounds):
            self.round()
        return rounds

    def noiseless(self, weights):
        kept = self.weights, self.bias, self.sigma, self.rate
        weights = torch.from_numpy(weights)
        self.weights, self.bias = weights[:, :FEATURES].clone(), weights[:, FEATURES:].clone()
        self.sigma, self.rate = 0.0, 1.0
        self.run(1)
        after = torch.cat([self.weights, self.bias], 1).numpy()
        self.weights, self.bias, self.sigma, self.rate = kept
        return after


class Rows(torch.utils.data.Dataset):
    """Rows that the loader may ask for a batch at a time, instead of one by one."""

    def __init__(self, features, labels):
        self.features, self.labels = features, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.features[index], self.labels[index]

    def __getitems__(self, indices):
        indices = torch.as_tensor(indices)
        return torch.index_select(self.features, 0, indices), self.labels[indices]


def as_it_is(batch):
    return batch


class Opacus:
    def __init__(self, problem, mode, kind, size, threads, sigma=NOISE_MULTIPLIER, rate=LEARNING_RATE, weights=None):
        from opacus import PrivacyEngine

        warnings.filterwarnings("ignore")
        self.problem, self.mode, self.kind, self.size, self.threads = problem, mode, kind, size, threads
        count = size if kind == "kernel" else ROWS
        features = torch.from_numpy(problem.features[:count])
        labels = torch.from_numpy(problem.labels[:count].astype(np.int64))
        module = torch.nn.Linear(FEATURES, CLASSES)
        with torch.no_grad():
            module.weight.copy_(torch.zeros(CLASSES, FEATURES) if weights is None else torch.from_numpy(weights[:, :-1]))
            module.bias.copy_(torch.zeros(CLASSES) if weights is None else torch.from_numpy(weights[:, -1]))
        self.module = module
        # Hooks stand for what people start with; ghost clipping for the same library tuned, loader included.
        tuned = mode == "ghost"
        rows = Rows(features, labels) if tuned else torch.utils.data.TensorDataset(features, labels)
        loader = torch.utils.data.DataLoader(rows, batch_size=size, collate_fn=as_it_is if tuned else None)
        made = PrivacyEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=rate),
            criterion=torch.nn.CrossEntropyLoss(),
            data_loader=loader,
            noise_multiplier=sigma,
            max_grad_norm=CLIP_NORM,
            grad_sample_mode=mode,
            poisson_sampling=kind != "kernel",
        )
        if len(made) == 4:
            self.model, self.optimizer, self.criterion, self.loader = made
        else:
            (self.model, self.optimizer, self.loader), self.criterion = made, torch.nn.CrossEntropyLoss()
        self.chosen = {
            "hooks": "make_private, TensorDataset and DataLoader as in its examples",
            "ghost": "ghost clipping, loader that fetches a batch at once",
        }[mode]
        self.fixed = (features, labels) if kind == "kernel" else None
        self.batches = None

    def batch(self):
        if self.fixed:
            return self.fixed
        while True:
            if self.batches is None:
                self.batches = iter(self.loader)
            try:
                return next(self.batches)
            except StopIteration:
                self.batches = None

    def run(self, rounds):
        torch.set_num_threads(self.threads)
        for _ in range(rounds):
            features, labels = self.batch()
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(features), labels)
            loss.backward()
            self.optimizer.step()
        return rounds

    def noiseless(self, weights):
        once = Opacus(self.problem, self.mode, self.kind, self.size, self.threads, 0.0, 1.0, weights)
        once.run(1)
        with torch.no_grad():
            return torch.cat([once.module.weight, once.module.bias[:, None]], 1).numpy()


def fewer_threads(session):
    """Small batches may be faster on one thread: the faster of one and all is kept."""
    times = {}
    for threads in {session.threads, 1}:
        session.threads = threads
        session.run(2)
        trials = []
        # The best of several: whatever else runs on the machine only slows a trial.
        for _ in range(5):
            started = time.perf_counter()
            session.run(2)
            trials.append(time.perf_counter() - started)
        times[threads] = min(trials)
    session.threads = min(times, key=times.get)
    session.chosen += f", {session.threads} of torch's threads"
    return session


def Session(problem, peer, kind, size, threads):
    torch.manual_seed(1)
    if peer == "torch-closed-form":
        return fewer_threads(ClosedForm(problem, kind, size, threads))
    session = Opacus(problem, peer.removeprefix("opacus-"), kind, size, threads)
    return fewer_threads(session) if peer == "opacus-ghost" and size <= 8000 else session
