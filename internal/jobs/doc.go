// Package jobs is a queue of commands on NATS JetStream: what is on the servers, and everything that is decided there.
//
//	confine.jobs.PRIORITY.ACCOUNT.BATCH.INDEX    stream confine-jobs: jobs that wait or run, each once; three consumers, one a priority
//	$KV.confine-records.ACCOUNT.BATCH.INDEX      what has become of each, from its first start or its cancellation on
//	$KV.confine-workers.WORKER                   who works, written again and again
//	confine.worker.WORKER                        requests to end a job, no stream
//	$KV.confine-sessions.session.ACCOUNT.NAME    who has each session; snapshot.ACCOUNT.ID: which snapshots there are
//	confine.sessions.ACCOUNT.WORKER              connections to a worker, for its sessions (package tunnel)
//	confine.output.ACCOUNT.BATCH.INDEX           what jobs write while they run
//	confine.dead.ACCOUNT.BATCH.INDEX             jobs that were given up, each once, with the reason
//	$O.confine-files.>                           inputs and outputs, under their digests
//
// # How it holds
//
// A job is accepted when its message is: one write, so that it is there or not. From then on all that counts is its record. Whoever
// starts a job, ends it, cancels it or gives it up writes that there first, at the revision that it has read, and the servers refuse the
// second of two. A message that is delivered, once more or too early, is a reason to look at the record ([Decide]), and nothing else; it
// is acknowledged when the record says that the job has ended. So a job is reported once, however often it is delivered, and isn't lost
// as long as the servers keep what they have acknowledged.
//
// That a job runs in one place follows from leases. A worker writes its own key again and again; when the servers have not confirmed
// that for as long as its lease, by a clock of its own that nobody sets, it ends what it runs. Others take over when they have seen the
// key unchanged for one and a half times as long, by clocks of their own, and have written "gone" there, at the revision that they saw
// ([Peers.See]). After that the worker can't renew it. No time of one host is compared with that of another.
//
// A job that is cancelled while it waits gets a record that says so; whoever would start it is refused. One that runs is
// ended by its worker, or found without one by the same rule; only then is its record final, and the cancellation acknowledged.
//
// What it doesn't hold: a worker whose process is stopped (SIGSTOP), or starved for half of its lease, while its jobs go on: they end
// when it goes on, and may be elsewhere by then. What a job did before its worker died it may do again: it is started
// again, and whatever it has reached over a network remembers the first time.
//
// A session is its worker's as long as its record says so and the worker's lease lasts. What becomes of one that moves, or whose worker is gone, is in
// internal/jobs/worker/move.go.
//
// # The order to read
//
// job.go has what is said, layout.go where it is; decide.go the one decision of workers; submit.go, cancel.go, list.go and output.go
// what users ask for; peers.go and lease.go who is there; files.go what jobs are given and leave; sessions.go the records of sessions, and reach.go how their workers are reached.
package jobs
