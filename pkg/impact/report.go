package impact

// Report has the differences for pools between two revisions. It contains no credentials.
type Report struct {
	// Summary says in a sentence whether head can be merged, and what it changes.
	Summary string `json:"verdict"`

	Base Revision `json:"base"`
	Head Revision `json:"head"`
	// Profiles that differ at head, by name.
	Profiles []ProfileChange `json:"profiles"`
	// RejectedFiles lists what every cluster would reject at head, by path.
	RejectedFiles []RejectedFile `json:"refused"`
	// Notes are about profiles that other ProfileSources offer as well, and about edited
	// profiles whose version was not raised.
	Notes []string `json:"notes,omitempty"`
	// Changes are the pools that get another configuration, grouped by equal difference,
	// largest group first.
	Changes []Change `json:"changes"`
	// Rejections are pools whose configuration at head would be rejected.
	Rejections []PoolRejection `json:"refusals"`
	// Unchanged are the pools without a change, by reason.
	Unchanged []Unchanged `json:"unchanged"`
	// Pools is the number of all pools.
	Pools int `json:"pools"`
}

// Revision is a state of the repository.
type Revision struct {
	// Name is the name that the user gave; "the work tree" for uncommitted files.
	Name string `json:"name"`
	// Commit is its id.
	Commit string `json:"commit,omitempty"`
	// URL is the page of the commit, if the host of the repository is known.
	URL string `json:"url,omitempty"`
}

// ProfileChange is a profile whose current version differs.
type ProfileChange struct {
	Name string `json:"name"`
	// Change is added, updated, rolled back or removed.
	Change string `json:"change"`
	From   string `json:"from,omitempty"` // version
	To     string `json:"to,omitempty"`   // version
	// Path of the file; for a removed profile its path at base.
	Path string `json:"path,omitempty"`
}

// Kinds of changes of a profile.
const (
	ProfileAdded      = "added"
	ProfileUpdated    = "updated"
	ProfileRolledBack = "rolled back"
	ProfileRemoved    = "removed"
)

// RejectedFile is an error in a file.
type RejectedFile struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Profile string `json:"profile,omitempty"`
	Version string `json:"version,omitempty"`
	Message string `json:"message"`
	// URL is the page of the line at head, if the host of the repository is known.
	URL string `json:"url,omitempty"`
}

// Change is a difference with the pools that it affects.
type Change struct {
	Profile string `json:"profile"`
	// From is the version at base, "" if pools could have none there, and To the one at head.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Files that differ on a node. The list is empty if only the version, the commit and the
	// digest of the configuration differ, which a profile can write to a node and which are
	// not compared.
	Files []FileDiff `json:"files"`
	Pools []Affected `json:"pools"`
}

// Affected is a pool with a Change.
type Affected struct {
	Name string `json:"name"` // "namespace/name"
	// Has is its version in the cluster, if it differs from the version at base.
	Has string `json:"has,omitempty"`
	// Replaced: running machines are replaced; otherwise only new machines get it.
	Replaced bool `json:"replaced"`
	// Windows are the maintenance windows in which they are replaced; nil if at any time.
	Windows []string `json:"windows,omitempty"`
	// Wave in which it gets the new version; nil if all pools get it at once.
	Wave *int32 `json:"wave,omitempty"`
	// Provider is the cloud provider.
	Provider string `json:"provider"`
	// UserData is the size of the document from which a machine boots.
	UserData UserData `json:"userData"`
}

// UserData has sizes in bytes.
type UserData struct {
	// Before and After are the actual sizes; Before is 0 if there was none.
	Before int `json:"before,omitempty"`
	After  int `json:"after"`
	// Counted is After as the provider counts it, and Limit the provider's maximum.
	Counted int `json:"counted"`
	Limit   int `json:"limit"`
}

// PoolRejection is a reason for rejection, with its pools. They retain their configuration.
type PoolRejection struct {
	// Reason contains the file and the line, if a file is the cause.
	Reason string   `json:"reason"`
	Pools  []string `json:"pools"`
	// Before: it also applies at base, so head did not cause it.
	Before bool `json:"before"`
}

// Unchanged is a reason, with its pools.
type Unchanged struct {
	Reason string   `json:"reason"`
	Pools  []string `json:"pools"`
}

// BlocksMerge reports whether head has a rejected file, or rejects a pool that base does not
// reject.
func (r *Report) BlocksMerge() bool {
	for _, f := range r.Rejections {
		if !f.Before {
			return true
		}
	}
	return len(r.RejectedFiles) > 0
}

// Differs reports whether a pool or a profile changes.
func (r *Report) Differs() bool { return len(r.Changes)+len(r.Profiles) > 0 }

// countAffected counts the pools with a Change.
func (r *Report) countAffected() (pools, replaced int) {
	for _, c := range r.Changes {
		for _, p := range c.Pools {
			pools++
			if p.Replaced {
				replaced++
			}
		}
	}
	return pools, replaced
}

func (r *Report) countRejected() int {
	n := 0
	for _, f := range r.Rejections {
		n += len(f.Pools)
	}
	return n
}
