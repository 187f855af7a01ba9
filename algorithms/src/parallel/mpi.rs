//! Ranks that are MPI processes, by way of rsmpi's safe interface.

use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::request;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Root, Source};

use super::ranks::Ranks;

/// Bytes of one message at most: MPI counts in `i32`.
const MOST_BYTES: usize = 1 << 30;

/// The message of a rank that has nothing to send.
static NOTHING: [u8; 1] = [0];

/// MPI cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// `MPI_Init` was called before.
    #[error("MPI was started before in this process")]
    Started,
    /// The rounds run on a thread of the pool, so MPI must let any one thread call it.
    #[error(
        "this MPI lets only the main thread call it (it offers {0:?}); an MPI with MPI_THREAD_SERIALIZED is needed"
    )]
    Threads(Threading),
}

/// The processes of `MPI_COMM_WORLD`. MPI ends when this is dropped.
pub struct MpiRanks {
    _universe: Universe,
    rank: usize,
    count: usize,
}

impl MpiRanks {
    /// Starts MPI.
    ///
    /// # Errors
    /// MPI that was started before, or that no thread but the first may call.
    pub fn start() -> Result<Self, MpiError> {
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized).ok_or(MpiError::Started)?;
        if threading < Threading::Serialized {
            return Err(MpiError::Threads(threading));
        }
        let world = universe.world();
        let (rank, count) = (world.rank() as usize, world.size() as usize);
        Ok(Self { _universe: universe, rank, count })
    }

    /// Ends all ranks at once, with exit code `code`.
    pub fn abort(code: i32) -> ! {
        SimpleCommunicator::world().abort(code)
    }
}

impl Ranks for MpiRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn swap(&self, partner: usize, values: &[f64], received: &mut [f64]) {
        let world = SimpleCommunicator::world();
        let partner = world.process_at_rank(partner as i32);
        for (values, received) in values.chunks(MOST_BYTES / 8).zip(received.chunks_mut(MOST_BYTES / 8)) {
            mpi::point_to_point::send_receive_into(values, &partner, received, &partner);
        }
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) {
        assert!(i32::try_from(all.len()).is_ok(), "{} bytes are more than MPI counts", all.len());
        let counts: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
        let places: Vec<i32> = lengths
            .iter()
            .scan(0, |place, &length| {
                let own = *place;
                *place += length as i32;
                Some(own)
            })
            .collect();
        if all.is_empty() {
            return;
        }
        // An empty slice of a Vec points to address 1, which some MPIs take for MPI_IN_PLACE.
        let own = if own.is_empty() { &NOTHING[..0] } else { own };
        let mut parts = PartitionMut::new(all, counts, places);
        SimpleCommunicator::world().all_gather_varcount_into(own, &mut parts);
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        let world = SimpleCommunicator::world();
        for part in bytes.chunks_mut(MOST_BYTES) {
            world.process_at_rank(from as i32).broadcast_into(part);
        }
    }

    fn exchange(&self, outgoing: &[Vec<u8>], incoming: &mut [Vec<u8>]) {
        let world = SimpleCommunicator::world();
        request::scope(|scope| {
            let mut requests = Vec::new();
            for (rank, bytes) in incoming.iter_mut().enumerate() {
                for part in bytes.chunks_mut(MOST_BYTES) {
                    let from = world.process_at_rank(rank as i32);
                    requests.push(from.immediate_receive_into(scope, part));
                }
            }
            let mut sends = Vec::new();
            for (rank, bytes) in outgoing.iter().enumerate() {
                for part in bytes.chunks(MOST_BYTES) {
                    sends.push(world.process_at_rank(rank as i32).immediate_send(scope, part));
                }
            }
            requests.into_iter().for_each(|request| {
                request.wait_without_status();
            });
            sends.into_iter().for_each(|request| {
                request.wait_without_status();
            });
        });
    }
}
