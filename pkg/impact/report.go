package impact

// Report is what differs for pools between two revisions. It holds no credential.
type Report struct {
	// Verdict says in a sentence whether head can be merged, and what it changes.
	Verdict string `json:"verdict"`

	Base Revision `json:"base"`
	Head Revision `json:"head"`
	// Profiles that are others at head, by name.
	Profiles []ProfileChange `json:"profiles"`
	// Refused is what head holds and no cluster would take, by path.
	Refused []Refused `json:"refused"`
	// Notes are about profiles that other ProfileSources offer as well, and about edited
	// ones whose version was not raised.
	Notes []string `json:"notes,omitempty"`
	// Changes are the pools that get something else, those with the same difference
	// together: the largest group first.
	Changes []Change `json:"changes"`
	// Refusals are pools that cannot have what they would get at head.
	Refusals []Refusal `json:"refusals"`
	// Unchanged are the pools that nothing changes for, by reason.
	Unchanged []Unchanged `json:"unchanged"`
	// Pools is the number of all of them.
	Pools int `json:"pools"`
}

// Revision is a state of the repository.
type Revision struct {
	// Name as it was asked for; "the work tree" for what is not committed.
	Name string `json:"name"`
	// Commit is its id.
	Commit string `json:"commit,omitempty"`
}

// ProfileChange is a profile whose current version is another.
type ProfileChange struct {
	Name string `json:"name"`
	// Change is added, updated, rolled back or removed.
	Change string `json:"change"`
	From   string `json:"from,omitempty"` // version
	To     string `json:"to,omitempty"`   // version
	// Path of the file; that at base of one that was removed.
	Path string `json:"path,omitempty"`
}

// The changes of a profile.
const (
	ProfileAdded      = "added"
	ProfileUpdated    = "updated"
	ProfileRolledBack = "rolled back"
	ProfileRemoved    = "removed"
)

// Refused is a mistake in a file.
type Refused struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Profile string `json:"profile,omitempty"`
	Version string `json:"version,omitempty"`
	Message string `json:"message"`
}

// Change is a difference, and the pools that it is that of.
type Change struct {
	Profile string `json:"profile"`
	// From is the version at base, "" for pools that could have none there, and To at head.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	// Files that differ on a node. There are none where only the version, the commit and
	// the digest of the configuration differ, which a profile may put on a node and which
	// are not compared.
	Files []FileDiff `json:"files"`
	Pools []Affected `json:"pools"`
}

// Affected is a pool with a Change.
type Affected struct {
	Name string `json:"name"` // "namespace/name"
	// Has is what it has in its cluster, where that is not what base gives it.
	Has string `json:"has,omitempty"`
	// Replaced: running machines are replaced. Else new ones get it only.
	Replaced bool `json:"replaced"`
	// Wave in which it gets the new version; nil where all pools get it at once.
	Wave *int32 `json:"wave,omitempty"`
	// Provider is the cloud provider.
	Provider string `json:"provider"`
	// UserData is the document that a machine boots from.
	UserData UserData `json:"userData"`
}

// UserData are sizes in bytes.
type UserData struct {
	// Before and After are the sizes as they are; Before is 0 where there was none.
	Before int `json:"before,omitempty"`
	After  int `json:"after"`
	// Counted is After as the provider counts it, and Limit what it takes.
	Counted int `json:"counted"`
	Limit   int `json:"limit"`
}

// Refusal is a reason, and the pools it is that of. They keep what they have.
type Refusal struct {
	// Reason holds the file and the line, where a file is to blame.
	Reason string   `json:"reason"`
	Pools  []string `json:"pools"`
	// Before: it is so at base as well, and no fault of head.
	Before bool `json:"before"`
}

// Unchanged is a reason, and the pools it is that of.
type Unchanged struct {
	Reason string   `json:"reason"`
	Pools  []string `json:"pools"`
}

// Failed reports whether something is refused at head.
func (r *Report) Failed() bool {
	for _, f := range r.Refusals {
		if !f.Before {
			return true
		}
	}
	return len(r.Refused) > 0
}

// Differs reports whether anything is another for a pool, or a profile is another.
func (r *Report) Differs() bool { return len(r.Changes)+len(r.Profiles) > 0 }

// affected counts the pools with a Change.
func (r *Report) affected() (pools, replaced int) {
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

func (r *Report) refused() int {
	n := 0
	for _, f := range r.Refusals {
		n += len(f.Pools)
	}
	return n
}
