// Package audit reads what the kernel's audit says about Landlock's denials of one run
// (Linux 6.15): also of those that name no path in a call, such as what is done with a
// descriptor that was opened before.
//
//	kernel ─▶ NETLINK_AUDIT, group AUDIT_NLGRP_READLOG ─▶ Reader ─▶ Denial
//
// A denial is in two records: AUDIT_LANDLOCK_ACCESS says what was refused by which domain,
// and AUDIT_LANDLOCK_DOMAIN, once for each domain, who made that. Only those of
// the domain that the run's own command was put into are told; of any other run, nothing is.
//
// reader_linux.go hears, record.go puts records together.
//
// It reads, and changes no setting: where audit is off, or this process may not listen, there
// is nothing, and the reason is told. It takes CAP_AUDIT_READ in the initial user namespace
// and, for numbers of processes to mean the same, the initial pid namespace.
//
// # Current limitations
//
// The kernel drops records when there are too many. A domain that the command puts itself into
// is told as the run's. Records that come after the end are lost.
package audit
