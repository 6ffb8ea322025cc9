// Package tunnel has connections over the subjects of NATS, so that what is made for connections (HTTP, TLS, a terminal) needs no form of its own there.
//
//	who dials    SUBJECT        an inbox of its own, as the subject for answers
//	who listens  that inbox     the subject of the connection, SUBJECT.WORD, where WORD is one that nobody guesses
//
// From then on each sends frames to the other's subject. Both ends keep what they have sent until the other has confirmed it, and send it again when that takes
// too long: NATS loses messages when a server ends, or a connection to one, and a connection of ours outlives both. It breaks
// when nothing was heard for half a minute, or for some seconds in which the servers said that nobody is there. What is on its way is bounded, and who writes waits.
//
// What it doesn't hold: whoever may publish on a subject of a connection, and knows it, can break the connection and put bytes into it; whoever may subscribe to it can read. The
// servers' permissions say who may, and TLS inside holds for the rest.
package tunnel
