// Package doctor examines an installation for users whose nodes get no configuration: do
// the kinds exist, does the controller have its permissions, does a controller have the
// lease, which pools wait and for what. Each finding has a remedy.
//
// It writes nothing except SubjectAccessReviews, which are queries. It retains only names,
// times and certificates of Secrets, and no finding contains a credential.
//
// Start reading at Doctor.Examine.
package doctor
