// Package cluster gives tests and the demo a real Kubernetes control plane: kube-apiserver, etcd
// and kube-controller-manager on loopback, from the program in test/controlplane, which package
// program builds once.
//
// Tests of one package share one control plane, each in its own namespace:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }
//
//	func TestSomething(t *testing.T) {
//		c := cluster.Shared(t)
//		namespace := c.Namespace(t)
//		...
//	}
//
// Start gives a test its own control plane, to kill or to restart. Run does the same for programs
// that are not tests.
//
// A test that cannot get a control plane is skipped, with the reason on stderr; with CI=true it
// fails. A control plane ends with the process that started it, even if that is killed. The
// package needs Linux.
//
// It is not part of the product, and it imitates nothing: the API server refuses here what it
// refuses in production.
package cluster
