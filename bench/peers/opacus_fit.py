"""DP-SGD for softmax regression with Opacus, as an estimator: the plan of a run of `rounds`, its own Poisson loader, ghost clipping and noise,
calibrated by its own accountant (prv) before the clock starts. Batches are fetched at once, and one thread is taken where more are slower."""

import functools
import time
import warnings

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.accountants.utils import get_noise_multiplier
from peer_torch import Rows, as_it_is
from planned_fit import Planned


noise = functools.cache(get_noise_multiplier)


class Opacus(Planned):
    def prepare(self, X, y):
        """All that is done once for rows of this shape."""
        warnings.filterwarnings("ignore")
        self.rows = Rows(torch.tensor(X, dtype=torch.float32), torch.from_numpy(np.searchsorted(self.classes, y)))
        batches = len(torch.utils.data.DataLoader(self.rows, batch_size=round(self.batch)))
        self.multiplier = noise(
            target_epsilon=self.epsilon, target_delta=self.delta, sample_rate=1 / batches, steps=self.rounds, accountant="prv"
        )
        times = {}
        for threads in {1, torch.get_num_threads()}:
            torch.set_num_threads(threads)
            self.loop(2)
            started = time.perf_counter()
            self.loop(2)
            times[threads] = time.perf_counter() - started
        torch.set_num_threads(min(times, key=times.get))
        return self

    def loop(self, rounds):
        torch.manual_seed(self.seed)
        module = torch.nn.Linear(self.rows.features.shape[1], len(self.classes))
        for parameter in module.parameters():
            torch.nn.init.zeros_(parameter)
        self.engine = PrivacyEngine(accountant="prv")
        model, optimizer, criterion, loader = self.engine.make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=1.0, momentum=self.momentum),
            criterion=torch.nn.CrossEntropyLoss(),
            data_loader=torch.utils.data.DataLoader(self.rows, batch_size=round(self.batch), collate_fn=as_it_is),
            noise_multiplier=self.multiplier,
            max_grad_norm=self.clip,
            grad_sample_mode="ghost",
        )
        done = 0
        while done < rounds:
            for features, labels in loader:
                optimizer.param_groups[0]["lr"] = self.steps[done]
                optimizer.zero_grad()
                criterion(model(features), labels).backward()
                optimizer.step()
                done += 1
                if done == rounds:
                    break
        self.weights, self.bias = (parameter.detach().numpy() for parameter in (module.weight, module.bias))

    def fit(self, X, y):
        self.loop(self.rounds)
        return self

    @property
    def privacy_(self):
        return {"epsilon": self.engine.get_epsilon(self.delta), "delta": self.delta}
