"""Correlated noise in a loop of PyTorch, straight into the gradient's memory."""

import torch

import rounds

torch.manual_seed(0)
X = 2 * torch.rand(4_000, 10) - 1
y = torch.sign(X.sum(dim=1))
batch, epochs, clip = 200, 5, 1.0
per_epoch = len(X) // batch

# Each row is in one round of every epoch, always the same one: what the noise is made for. `key` is a seed; without one the noise
# is secret.
noise = rounds.noise.stream("blt=3", 10, key=1, rounds=epochs * per_epoch, epochs=epochs, clip_norm=clip, epsilon=2.0, delta=1e-6)
print(f"sensitivity {noise.sensitivity:.3f}, noise multiplier {noise.noise_multiplier:.2f}")

w = torch.zeros(10, requires_grad=True)
optimiser = torch.optim.SGD([w], lr=2.0)

for round in range(epochs * per_epoch):
    rows = slice(batch * (round % per_epoch), batch * (round % per_epoch + 1))
    # Each row has a copy of w, whose gradient is that row's; of a network torch.func.vmap(torch.func.grad(loss), ...) gives them.
    copies = w.detach().expand(batch, -1).requires_grad_()
    losses = torch.nn.functional.softplus(-y[rows] * (X[rows] * copies).sum(dim=1))
    (gradients,) = torch.autograd.grad(losses.sum(), copies)
    norms = gradients.norm(dim=1, keepdim=True).clamp_min(1e-12)
    total = (gradients * (clip / norms).clamp_max(1.0)).sum(dim=0)
    noise.add(total.numpy())  # shares the tensor's memory
    w.grad = total / batch
    optimiser.step()
print(f"accuracy {(torch.sign(X @ w.detach()) == y).float().mean():.2f}")
print(noise.statement["reason"])
