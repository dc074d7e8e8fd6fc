// Package virtual has clusters that are read and never written: a Store remembers the writes, and a
// View of a cluster is a client that returns the cluster with these writes.
//
// It does not predict what the API server or admission webhooks would reject: it enforces
// what those controllers rely on, which are existence, versions, UIDs and immutable
// Secrets.
//
// It is own code because nothing else does what the controllers rely on:
//
//   - A dry run by the API server stores nothing. Pools would not read the profiles that sources
//     would have created, and dry runs need every permission to write.
//   - client/fake of controller-runtime v0.24.1 gives no UID to what is created, updates
//     immutable Secrets, and answers a TokenRequest with "fake-token", whereas the size of user
//     data is checked. All objects of the cluster would have to be copied into it for each run.
//   - client/interceptor sends what has no function of its own to the cluster. View implements
//     all of client.Client and rejects what it does not know.
//
// Start with NewStore and Store.NewView.
package virtual
