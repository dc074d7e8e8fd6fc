// Package doctor looks at an installation as somebody would whose nodes get no
// configuration: are the kinds there, may the controller do what it has to, does anyone
// hold its lease, which pools wait and for what. Each finding says what to do.
//
// It writes nothing: the one thing that it creates is SubjectAccessReviews, which are
// questions. Of Secrets it keeps names, times and certificates; no credential is in a
// finding.
//
// Start reading at Doctor.Examine.
package doctor
