// Package cluster gives tests and the demo a real Kubernetes control plane:
// kube-apiserver, etcd and kube-controller-manager on loopback, from the program
// in test/controlplane, which it builds once and keeps in the user's cache.
//
// Tests of one package share one control plane and live in namespaces of their
// own:
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }
//
//	func TestSomething(t *testing.T) {
//		c := cluster.Shared(t)
//		namespace := c.Namespace(t)
//		...
//	}
//
// Start gives a test a control plane of its own, to kill or to restart. Run and
// Binary do the same for programs that are not tests.
//
// A test that cannot have a control plane is skipped, and says why on stderr;
// with CI=true it fails instead. A control plane dies with the process that
// started it, however that ends. The package needs Linux.
//
// It never runs in the product, and it fakes nothing: what the API server
// refuses in production, it refuses here.
package cluster
