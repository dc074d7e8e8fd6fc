// Package approval decides whether the revision that a ProfileSource names can be applied: it
// verifies the required signatures, also of earlier commits whose versions become objects, and
// notices when history was rewritten.
//
// It never writes to the cluster. Start with Approver.Approve.
package approval
