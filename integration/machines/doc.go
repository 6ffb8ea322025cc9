// Command machines is the proving ground: it boots hosts that are unlike the one
// it runs on, has confine run there, and writes down what held what.
//
//	make machines                               all of them, and docs/ENFORCEMENT.md held against what came of it
//	go run ./integration/machines -write        the same, and the document written anew
//	go run ./integration/machines -only NAMES   some of them; -v shows what they say
//
// A machine is a Debian kernel under QEMU with a small Debian on its disk. What
// differs from one to the next is data: the table in hosts.go. In each one confine
// runs once with all capabilities asked for, and the ledger in its report tells
// the mechanisms. Then the scripts of the integration tests run, those that
// proofs.go names: a capability is proven where one of its scripts really ran and
// none failed. A host where confine refuses to start has nothing to prove.
//
// QEMU uses KVM where a machine really boots with it, and emulates otherwise. The
// archive is asked through an apt configuration of its own, so nothing of the
// caller's is changed, and root isn't needed. Downloads, the disk and results are
// kept in the user's cache directory, under names that hash what they were made
// from: where nothing has changed nothing is booted.
//
// Without QEMU, the other programs, or the archive, everything is skipped,
// unless CONFINE_MUST_RUN names "machines".
//
// Current limitations: amd64 only. Most machines have one CPU, and the emulated
// ones are slow: what depends on a race between CPUs is not tried here.
package main
