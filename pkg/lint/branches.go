package lint

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// dimensionsForConditions returns the dimensions of a profile's pools, with values for what the
// conditions of its branches compare with by name: versions of the kubelet, feature gates, downloads.
func dimensionsForConditions(doc profile.Document, branches []render.Branch) []matrix.Dimension {
	dims := matrix.Dimensions(doc)
	add := func(dimension string, v matrix.Value) {
		i := slices.IndexFunc(dims, func(d matrix.Dimension) bool { return d.Name == dimension })
		if i >= 0 && !slices.ContainsFunc(dims[i].Values, func(w matrix.Value) bool { return w.Name == v.Name }) {
			dims[i].Values = append(dims[i].Values, v)
		}
	}
	for _, version := range comparedPatchVersions(branches) {
		add(matrix.Kubelet, matrix.Value{Name: version, Apply: func(c *matrix.Combination) { c.Kubelet(version) }})
	}
	gates := mapKeysInConditions(branches, "KubeletFeatureGates")
	for _, state := range []bool{true, false} {
		if len(gates) > 0 {
			add(matrix.Gates, matrix.Value{Name: map[bool]string{true: "on", false: "off"}[state], Apply: func(c *matrix.Combination) {
				c.Settings.KubeletFeatureGates = map[string]bool{}
				for _, gate := range gates {
					c.Settings.KubeletFeatureGates[gate] = state
				}
			}})
		}
	}
	mirrors := mapKeysInConditions(branches, "DownloadMirrors")
	digests := mapKeysInConditions(branches, "DownloadDigests")
	if len(mirrors)+len(digests) > 0 {
		add(matrix.Downloads, matrix.Value{Name: "by name", Apply: func(c *matrix.Combination) {
			c.Settings.DownloadMirrors, c.Settings.DownloadDigests = map[string]string{}, map[string]string{}
			for _, name := range mirrors {
				c.Settings.DownloadMirrors[name] = "https://mirror.example.com/" + name
			}
			for _, name := range digests {
				c.Settings.DownloadDigests[name] = strings.Repeat("0123456789abcdef", 4)
			}
		}})
	}
	return dims
}

// versionIn is a version of Kubernetes in a constraint, such as ">= 1.34.2-0".
var versionIn = regexp.MustCompile(`\bv?1\.(\d+)\.(\d+)\b`)

// comparedPatchVersions returns the patch releases of supported Kubernetes minors that conditions
// of a template compare with, each followed by the next patch release, at most 8 in all. Releases
// .0 are rendered anyway.
func comparedPatchVersions(branches []render.Branch) []string {
	const most = 8
	var versions []string
	for _, b := range branches {
		if !slices.Contains(b.Reads, "KubeVersion") {
			continue
		}
		for _, literal := range b.Literals {
			for _, m := range versionIn.FindAllStringSubmatch(literal, -1) {
				patch, err := strconv.Atoi(m[2])
				if err != nil || patch > 1000 || !supported(m[1]) {
					continue
				}
				for _, p := range []int{patch, patch + 1} {
					if v := fmt.Sprintf("1.%s.%d", m[1], p); patch > 0 && len(versions) < most && !slices.Contains(versions, v) {
						versions = append(versions, v)
					}
				}
			}
		}
	}
	return versions
}

func supported(minor string) bool {
	return slices.ContainsFunc(matrix.Kubelets(), func(v string) bool { return strings.HasPrefix(v, "1."+minor+".") })
}

// mapKeysInConditions are the keys of a map that conditions name: .Map.Key or index .Map "Key".
func mapKeysInConditions(branches []render.Branch, field string) []string {
	var keys []string
	for _, b := range branches {
		for _, read := range b.Reads {
			if key, ok := strings.CutPrefix(read, field+"."); ok {
				keys = append(keys, key)
			}
			if read == field {
				keys = append(keys, b.Literals...)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// dependent lists the dimensions on which a field of the template data depends. Values that
// the kubelet's annotations set are not listed.
var dependent = map[string][]string{
	"KubeVersion": {matrix.Kubelet}, "CloudProviderName": {matrix.Provider}, "InTreeCCMAvailable": {matrix.Provider, matrix.Kubelet},
	"ExternalCloudProvider": {matrix.External}, "HTTPProxy": {matrix.Proxy}, "NoProxy": {matrix.Proxy}, "HostCACert": {matrix.HostCA},
	"CloudConfig": {matrix.CloudConfig}, "PauseImage": {matrix.Pause}, "InitialTaints": {matrix.Taints},
	"ContainerRuntimeConfig": {matrix.Registries, matrix.Pause}, "RegistryHosts": {matrix.Registries}, "KubeletFeatureGates": {matrix.Gates},
	"NetworkConfig": {matrix.Network, matrix.IPFamily}, "NetworkIPFamily": {matrix.IPFamily},
	"DownloadMirrors": {matrix.Downloads}, "DownloadDigests": {matrix.Downloads}, "Provenance": {matrix.Commit},
	"UbuntuConfig": {matrix.System}, "AmazonLinuxConfig": {matrix.System}, "RockyLinuxConfig": {matrix.System},
	"FlatcarConfig": {matrix.System}, "RhelConfig": {matrix.System},
}

// Limits on the search for branches.
const (
	maxSearchedRows  = 256  // for one branch
	maxSearchedTotal = 1024 // for a profile
)

// rowsForUnreachedBranches returns rows that may reach what no row has reached: all values of those
// dimensions that the conditions on the way there read.
func (r *profileRun) rowsForUnreachedBranches() [][]int {
	seen := map[string]bool{}
	for _, row := range r.rows {
		seen[fmt.Sprint(row)] = true
	}
	tried := map[string]bool{}
	var rows [][]int
	for i, b := range r.branches {
		if b.Hits > 0 {
			continue
		}
		dims := r.dimensionsOf(i)
		if id := fmt.Sprint(dims); len(dims) == 0 || tried[id] {
			continue
		} else {
			tried[id] = true
		}
		for _, row := range r.allCombinations(dims) {
			if id := fmt.Sprint(row); !seen[id] && len(rows) < maxSearchedTotal {
				seen[id] = true
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// dimensionsOf are those that decide whether a branch is reached, as indexes.
func (r *profileRun) dimensionsOf(branch int) []int {
	var dims []int
	for ; branch >= 0; branch = r.branches[branch].Inside {
		for _, read := range r.branches[branch].Reads {
			field, _, _ := strings.Cut(read, ".")
			names, ok := dependent[field]
			if !ok {
				names = []string{matrix.Annotations}
			}
			for i, d := range r.dims {
				if slices.Contains(names, d.Name) && !slices.Contains(dims, i) {
					dims = append(dims, i)
				}
			}
		}
	}
	slices.Sort(dims)
	return dims
}

// allCombinations returns every combination of the values of some dimensions, up to a limit.
func (r *profileRun) allCombinations(dims []int) [][]int {
	rows := [][]int{make([]int, len(r.dims))}
	for _, d := range dims {
		var next [][]int
		for _, row := range rows {
			for v := range r.dims[d].Values {
				if len(next) < maxSearchedRows {
					row := slices.Clone(row)
					row[d] = v
					next = append(next, row)
				}
			}
		}
		rows = next
	}
	return rows
}

// unexecutedBranches are the branches that no row executed, with the reason.
func (r *profileRun) unexecutedBranches() []Branch {
	var out []Branch
	for i, b := range r.branches {
		if b.Hits > 0 {
			continue
		}
		file, line := r.doc.Position(b.Field, b.Line)
		out = append(out, Branch{
			Path: file, Line: line, Profile: r.doc.Name, Version: r.doc.Spec.Version,
			Field: b.Field, File: b.File, Condition: b.Condition, Else: b.Else, Reason: r.unreachableReason(i),
			inner: b.Inside >= 0 && r.branches[b.Inside].Hits == 0,
		})
	}
	slices.SortStableFunc(out, func(a, b Branch) int { return cmp.Compare(a.Line, b.Line) })
	return out
}

// never are fields that exist for old templates and are always empty.
var never = []string{"ContainerRuntimeAuthConfig", "KubeletConfiguration", "KubeletSystemdUnit", "CNIVersion", "ServerAddress", "RHSubscription"}

// always are fields that every pool has.
var always = []string{"KubeVersion", "ClusterDNSIPs", "KubernetesCACert", "CloudProviderName", "ContainerRuntime", "ContainerRuntimeConfig",
	"BootstrapKubeconfig", "Token", "ServerURL", "SecretName", "BootstrapKubeconfigSecretName"}

// systems are the fields that one operating system has.
var systems = map[string]osm.OperatingSystem{
	"UbuntuConfig": osm.OperatingSystemUbuntu, "AmazonLinuxConfig": osm.OperatingSystemAmazon2, "RockyLinuxConfig": osm.OperatingSystemRockyLinux,
	"FlatcarConfig": osm.OperatingSystemFlatcar, "RhelConfig": osm.OperatingSystemRHEL,
}

// unreachableReason explains why a branch cannot be reached, if the cause is known.
func (r *profileRun) unreachableReason(i int) string {
	b := r.branches[i]
	if b.Inside >= 0 && r.branches[b.Inside].Hits == 0 {
		_, line := r.doc.Position(r.branches[b.Inside].Field, r.branches[b.Inside].Line)
		return fmt.Sprintf("it is inside a branch that was not reached, on line %d", line)
	}
	if b.Define != "" && b.Inside < 0 && !r.defineExecuted(b) {
		return fmt.Sprintf("nothing invokes the template %q that contains it", b.Define)
	}
	for _, read := range b.Reads {
		field, _, _ := strings.Cut(read, ".")
		switch system := systems[field]; {
		case slices.Contains(never, field) && !b.Else:
			return "." + field + " is always empty: remove it"
		case slices.Contains(always, read) && b.Else && strings.HasSuffix(b.Condition, " ."+read):
			return "." + field + " is never empty"
		case system != "" && system != r.doc.Spec.OSName:
			return fmt.Sprintf("only nodes of %s have a .%s, and the profile is for %s", system, field, r.doc.Spec.OSName)
		}
	}
	if slices.Contains(b.Reads, "CloudProviderName") && !b.Else && len(b.Literals) > 0 {
		return fmt.Sprintf("no provider in the profile's supportedCloudProviders makes it true: it compares with %s", quoteAll(b.Literals))
	}
	verb := "holds"
	if b.Else {
		verb = "fails"
	}
	if slices.Contains(b.Reads, "KubeVersion") {
		k := matrix.Kubelets()
		return fmt.Sprintf("the condition never %s with a supported kubelet, %s to %s", verb, k[0][:4], k[len(k)-1][:4])
	}
	return fmt.Sprintf("the condition never %s in %d combinations of pools and settings", verb, len(r.rows))
}

// defineExecuted reports whether the define that contains a branch was executed, judged by
// its other branches.
func (r *profileRun) defineExecuted(b render.Branch) bool {
	return slices.ContainsFunc(r.branches, func(o render.Branch) bool {
		return o.Field == b.Field && o.Define == b.Define && o.Hits > 0
	})
}

func quoteAll(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, strconv.Quote(s))
	}
	return strings.Join(out, ", ")
}

// finding is a note about a branch.
func (b Branch) finding() Finding {
	branch := "the branch"
	if b.Else {
		branch = "the other branch"
	}
	return Finding{
		Rule: RuleBranch, Severity: SeverityNote, Path: b.Path, Line: b.Line, Profile: b.Profile, Version: b.Version, Field: b.Field, File: b.File,
		Message: fmt.Sprintf("%s of {{ %s }} was not checked: %s", branch, b.Condition, b.Reason),
	}
}
