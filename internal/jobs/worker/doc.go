// Package worker does the jobs of a queue.
//
// A worker takes messages as long as it has room for them: memory, CPU and tasks, of each job as much as its policy lets it use. What is to be
// done with a message, package jobs decides. A job that is this worker's, by its record, runs in a sandbox out of a pool of the kind that it
// asks for; its record gets the report, and only then is the message acknowledged.
//
// It holds sessions as well: sandboxes that others ask for, by the API of "confine serve" and connections over NATS. They have room beside jobs, and end with the lease.
//
// worker.go has a worker's life and the leases that it consists of, pull.go how it takes messages, do.go what comes of one, execute.go
// the sandbox, output.go and inputs.go what it writes and gets, kinds.go and room.go who gets which, and how much. sessions.go holds sessions, and move.go has
// them go on at another worker.
package worker
