//! Threads that stay together for a loop of short parallel steps.
//!
//! One thread leads: it runs the loop and posts jobs, each a number of items and a task. The other members serve: between
//! jobs they spin for a while, then sleep. A job costs less than a microsecond where the members are awake. Within its group the
//! leader never waits for a member that sleeps or starts late: whoever is there takes items, so that two threads are not
//! slower than one on a machine that is busy with other work. It does wait for other groups to take their share.
//!
//! Each member takes a contiguous share of the items first, then what is left of its group's. Shares are taken forward in one job and
//! backward in the next: where a round is one job, rows that a core read last in one round are still in its cache at the begin of the next.
//!
//! The order of items on threads is not fixed; a task must not depend on it. The threads themselves come from outside.

use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a thread that waits spins, before it gives way to others between its looks.
const SPIN: Duration = Duration::from_micros(100);

/// Time after which it sleeps. Waking takes 25 to 50 µs.
const SLEEP: Duration = Duration::from_millis(1);

/// Pauses between two looks at the clock.
const PAUSES: usize = 16;

/// Members in a job are counted in the low bits of the state.
const MEMBER: u64 = 1;
const MEMBERS: u64 = 0xffff;
/// A job is open: members may join it.
const OPEN: u64 = 1 << 16;
/// The leader has left.
const DISMISSED: u64 = 1 << 17;
/// One job more.
const JOB: u64 = 1 << 18;

/// `task(item, member)`, of which the lifetime is forgotten while a job is open.
type Task = *const (dyn Fn(usize, usize) + Sync);

/// A member's share of a job's items, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Share {
    start: AtomicUsize,
    end: AtomicUsize,
    taken: AtomicUsize,
}

/// The meeting place of the threads of a team. Member 0 leads.
pub struct Team {
    /// The members of each group.
    groups: Box<[Range<usize>]>,
    /// One a member.
    shares: Box<[Share]>,
    state: AtomicU64,
    /// The task of the open job.
    task: UnsafeCell<Option<Task>>,
    /// The leader is inside a job.
    in_job: AtomicBool,
    /// Members and the leader that sleep, or are about to.
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    /// The first panic of a member in a job.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `task` is written by the leader alone, while no job is open and no member is counted in one; members read it only
// while they are counted in the open job. The counter's release and acquire order the two.
unsafe impl Sync for Team {}
// SAFETY: as above; the pointer is only used while the leader's call of `run` keeps the task alive.
unsafe impl Send for Team {}

impl Team {
    /// A team of groups of threads, `groups[g]` of them in group g: one group for each memory node, say. Members are
    /// numbered group after group. A contiguous share of each job's items belongs to a group, in proportion to its members.
    ///
    /// # Panics
    /// Without a thread, or with 2¹⁶ of them.
    pub fn new(groups: &[usize]) -> Self {
        let members: usize = groups.iter().sum();
        assert!(members > 0 && (members as u64) < MEMBERS, "1 to 65,534 threads make a team");
        let mut first = 0;
        let group = |&members: &usize| {
            first += members;
            first - members..first
        };
        Self {
            groups: groups.iter().map(group).collect(),
            shares: (0..members).map(|_| Share::default()).collect(),
            state: AtomicU64::new(DISMISSED),
            task: UnsafeCell::new(None),
            in_job: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            panic: Mutex::new(None),
        }
    }

    /// Members, the leader included.
    pub fn members(&self) -> usize {
        self.shares.len()
    }

    /// Begins a session: from now on members that [`Self::serve`] wait for jobs.
    pub fn assemble(&self) {
        self.state.fetch_and(!DISMISSED, Ordering::SeqCst);
    }

    /// Makes the calling thread the leader for the time of `work`: [`Self::run`] then shares its items with the members
    /// that [`Self::serve`]. One thread at a time may lead, once a session, and a member of every other group has to serve.
    pub fn lead<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Dismissal<'a>(&'a Team);
        impl Drop for Dismissal<'_> {
            fn drop(&mut self) {
                self.0.state.fetch_or(DISMISSED, Ordering::SeqCst);
                self.0.wake_sleepers();
            }
        }
        let _dismissal = Dismissal(self);
        work()
    }

    /// Serves as `member` until the leader leaves; returns at once if no session has begun.
    pub fn serve(&self, member: usize) {
        let mut seen = 0;
        loop {
            let state = self.wait_until(|state| state & DISMISSED != 0 || (state & OPEN != 0 && state / JOB != seen));
            if state & DISMISSED != 0 {
                return;
            }
            let joined = self.state.compare_exchange_weak(state, state + MEMBER, Ordering::AcqRel, Ordering::Relaxed);
            if joined.is_err() {
                continue;
            }
            seen = state / JOB;
            // SAFETY: this member is counted in the open job, so the leader waits and the task lives.
            let task = unsafe { (*self.task.get()).map(|task| &*task) };
            if let Some(task) = task {
                self.take_items(seen, member, task);
            }
            let before = self.state.fetch_sub(MEMBER, Ordering::SeqCst);
            if before & MEMBERS == MEMBER {
                self.wake_sleepers();
            }
        }
    }

    /// Runs `task(item, member)` once for each item of `0..items`, as `caller`, and returns when all are done. Only the leader
    /// shares its items; a call from inside a task runs them alone.
    ///
    /// # Panics
    /// If a task does, after all that have begun have ended.
    pub fn run(&self, caller: usize, items: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let alone =
            caller != 0 || items < 2 || self.members() < 2 || self.state.load(Ordering::Relaxed) & DISMISSED != 0;
        if alone || self.in_job.swap(true, Ordering::Acquire) {
            (0..items).for_each(|item| task(item, caller));
            return;
        }
        let members = self.members();
        for (member, share) in self.shares.iter().enumerate() {
            share.start.store(items * member / members, Ordering::Relaxed);
            share.end.store(items * (member + 1) / members, Ordering::Relaxed);
            share.taken.store(0, Ordering::Relaxed);
        }
        #[allow(clippy::transmute_ptr_to_ptr, reason = "a cast keeps the lifetime")]
        // SAFETY: the types differ in the lifetime alone. No member uses the pointer after this call.
        let forgotten = unsafe { std::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), Task>(task) };
        // SAFETY: no job is open and no member is in one, so nobody reads.
        unsafe { *self.task.get() = Some(forgotten) };
        let before = self.state.fetch_add(JOB | OPEN, Ordering::SeqCst);
        self.wake_sleepers();
        self.take_items(before / JOB + 1, 0, task);
        // The shares of other groups are theirs to take.
        if self.groups.len() > 1 {
            self.wait_until(|_| self.shares.iter().all(Share::is_taken));
        }
        self.state.fetch_and(!OPEN, Ordering::SeqCst);
        self.wait_until(|state| state & MEMBERS == 0);
        let panic = lock(&self.panic).take();
        self.in_job.store(false, Ordering::Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Runs `task(offset, part, member)` over consecutive parts of `values`, each of `chunk` values but the last, as
    /// [`Self::run`].
    pub fn for_each_chunk<T: Send>(
        &self,
        caller: usize,
        values: &mut [T],
        chunk: usize,
        task: &(impl Fn(usize, &mut [T], usize) + Sync),
    ) {
        let values = Shared::new(values);
        self.run(caller, values.length.div_ceil(chunk), &|index, member| {
            let offset = index * chunk;
            // SAFETY: the chunks of different indices do not overlap, and each index is given to one call.
            let part = unsafe { values.part(offset, chunk.min(values.length - offset)) };
            task(offset, part, member);
        });
    }

    /// Runs items of the member's share of this job, then of the others' in its group, until none is left. A panic ends the job's items,
    /// and is kept for the leader.
    fn take_items(&self, job: u64, member: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        let group = self.groups.iter().find(|group| group.contains(&member));
        let group = group.expect("members are numbered group after group");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for share in (member..group.end).chain(group.start..member) {
                while let Some(item) = self.shares[share].take(job.is_multiple_of(2)) {
                    task(item, member);
                }
            }
        }));
        if let Err(panic) = outcome {
            let mut kept = lock(&self.panic);
            if kept.is_none() {
                *kept = Some(panic);
            } else {
                // Its destructor could panic as well, with the job open.
                std::mem::forget(panic);
            }
            drop(kept);
            for share in &self.shares {
                share.taken.fetch_max(share.items(), Ordering::Relaxed);
            }
        }
    }

    /// Spins, then sleeps, until the state is such that `ready`; returns that state.
    fn wait_until(&self, ready: impl Fn(u64) -> bool) -> u64 {
        let mut since = None;
        loop {
            for _ in 0..PAUSES {
                let state = self.state.load(Ordering::Acquire);
                if ready(state) {
                    return state;
                }
                std::hint::spin_loop();
            }
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if waited < SLEEP {
                if waited >= SPIN {
                    std::thread::yield_now();
                }
                continue;
            }
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            let mut guard = lock(&self.sleep);
            while !ready(self.state.load(Ordering::SeqCst)) {
                // The last member that leaves a job wakes the leader, also after the last item of its group.
                guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            drop(guard);
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // The lock is taken so that no one between its last look at the state and its sleep is missed.
            drop(lock(&self.sleep));
            self.wake.notify_all();
        }
    }
}

impl Share {
    fn items(&self) -> usize {
        self.end.load(Ordering::Relaxed) - self.start.load(Ordering::Relaxed)
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.items()
    }

    /// The next item that nobody has taken.
    fn take(&self, backward: bool) -> Option<usize> {
        if self.is_taken() {
            return None;
        }
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        let left = self.items().checked_sub(taken + 1)?;
        Some(self.start.load(Ordering::Relaxed) + if backward { left } else { taken })
    }
}

/// A slice of which different threads change different parts.
struct Shared<'a, T> {
    start: *mut T,
    length: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: parts that do not overlap may go to different threads if their values may.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    fn new(values: &'a mut [T]) -> Self {
        Self { start: values.as_mut_ptr(), length: values.len(), lifetime: PhantomData }
    }

    /// Values `offset .. offset + length`.
    ///
    /// # Safety
    /// They lie inside the slice, and no other part of this time overlaps them.
    #[allow(clippy::mut_from_ref, reason = "callers take parts that do not overlap")]
    unsafe fn part(&self, offset: usize, length: usize) -> &mut [T] {
        debug_assert!(offset + length <= self.length);
        // SAFETY: by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), length) }
    }
}

/// Takes a lock that only a panic could have poisoned; what it guards holds no invariant that a panic could break.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` as the leader of a team with threads of its own.
    fn with_team<R: Send>(groups: &[usize], work: impl FnOnce(&Team) -> R + Send) -> R {
        let team = &Team::new(groups);
        team.assemble();
        std::thread::scope(|scope| {
            for member in 1..team.members() {
                scope.spawn(move || team.serve(member));
            }
            team.lead(|| work(team))
        })
    }

    #[test]
    fn every_item_runs_once_in_every_job() {
        for groups in [&[1][..], &[2], &[3], &[1, 2], &[2, 1, 1]] {
            with_team(groups, |team| {
                for round in 0..300 {
                    let mut items = vec![0_u32; round % 7 * 5];
                    team.for_each_chunk(0, &mut items, 1, &|_, item, member| {
                        assert!(member < team.members());
                        item[0] += 1;
                    });
                    assert!(items.iter().all(|&runs| runs == 1));
                }
            });
        }
    }

    #[test]
    fn members_that_fell_asleep_are_woken() {
        with_team(&[2], |team| {
            for _ in 0..3 {
                std::thread::sleep(5 * SLEEP);
                // Both items wait for each other, so two threads must come.
                let meeting = std::sync::Barrier::new(2);
                team.run(0, 2, &|_, _| {
                    meeting.wait();
                });
            }
        });
    }

    #[test]
    fn a_call_from_inside_a_task_runs_its_items_alone() {
        with_team(&[2], |team| {
            let count = AtomicUsize::new(0);
            team.run(0, 8, &|_, member| {
                team.run(member, 8, &|_, inner| {
                    assert_eq!(inner, member);
                    count.fetch_add(1, Ordering::Relaxed);
                });
            });
            assert_eq!(count.into_inner(), 64);
        });
    }

    #[test]
    fn a_panic_reaches_the_leader_and_the_team_goes_on() {
        with_team(&[3], |team| {
            for culprit in 0..6 {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    team.run(0, 6, &|item, _| assert_ne!(item, culprit, "on purpose"));
                }));
                assert!(outcome.is_err());
            }
            let mut items = [0; 6];
            team.for_each_chunk(0, &mut items, 1, &|_, item, _| item[0] = 1);
            assert_eq!(items, [1; 6]);
        });
    }

    #[test]
    fn a_leader_alone_does_all_the_work() {
        // No member ever serves.
        let team = Team::new(&[4]);
        let mut values = vec![0; 100];
        team.assemble();
        team.lead(|| team.for_each_chunk(0, &mut values, 8, &|offset, part, _| part.fill(offset)));
        assert!(values.iter().enumerate().all(|(index, &value)| value == index / 8 * 8));
    }

    #[test]
    fn shares_are_taken_forward_and_backward_in_turn() {
        // No member ever serves, so that the leader takes its own share and then the other's.
        let team = Team::new(&[2]);
        team.assemble();
        team.lead(|| {
            for expected in [[0, 1, 2, 3, 4], [1, 0, 4, 3, 2], [0, 1, 2, 3, 4]] {
                let order = Mutex::new(Vec::new());
                team.run(0, 5, &|item, _| lock(&order).push(item));
                assert_eq!(*lock(&order), expected);
            }
        });
    }

    #[test]
    fn each_group_takes_its_own_share() {
        with_team(&[1, 2], |team| {
            for _ in 0..50 {
                let mut members = [usize::MAX; 12];
                team.for_each_chunk(0, &mut members, 1, &|_, to, member| to[0] = member);
                assert!(members[..4].iter().all(|&member| member == 0), "{members:?}");
                assert!(members[4..].iter().all(|&member| member == 1 || member == 2), "{members:?}");
            }
        });
    }
}
