// Package nodefixture is what tests share that make nodes of documents: how a node reads one,
// what publishers have for it, and how servers go wrong. It boots nothing:
// test/nodescripts runs scripts alone, test/bootnodes whole machines.
//
// Start with Parse in document.go and Fault in fault.go.
package nodefixture
