// Package userdata writes the documents that nodes boot from: the files, units, keys and
// modules of one stage as a document for cloud-init (CloudConfig), coreos-cloudinit or
// Ignition. It renders no templates and decides nothing about pools.
package userdata
