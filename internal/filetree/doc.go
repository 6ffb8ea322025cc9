// Package filetree does with whole trees of files what [Files] does with one: packs them into a tar, unpacks one, makes and removes
// directories with all that belongs to them. A tree is that of a sandbox, or a directory of the host's ([Host]).
//
// Symbolic links are carried as what they say. No link is followed here below the name that was asked for: on the way up
// they are read, on the way down they are made when everything else is in place.
package filetree
