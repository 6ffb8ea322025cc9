// Package initramfs makes the first file system of a Linux kernel that is to be booted: an archive in the format "newc" of
// cpio, and of the kernel's modules those that are wanted, with what they need, in the order in which they can be loaded.
package initramfs
