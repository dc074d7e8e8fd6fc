package pools

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/protobuf/encoding/protowire"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// What the API server sends as protobuf begins with a magic number; then comes a message
// Unknown, which has the object as bytes:
// https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
const (
	protobufType  = "application/vnd.kubernetes.protobuf"
	protobufMagic = "k8s\x00"
)

// Numbers of fields: generated.proto of k8s.io/apimachinery/pkg/runtime (Unknown,
// TypeMeta, RawExtension), k8s.io/apimachinery/pkg/apis/meta/v1 (WatchEvent, ObjectMeta)
// and k8s.io/api/core/v1 (Secret, ConfigMap).
const (
	unknownType, unknownRaw     protowire.Number = 1, 2
	typeKind                    protowire.Number = 2
	eventObject, extensionRaw   protowire.Number = 2, 1
	metaName, metaManagedFields protowire.Number = 1, 17
	objectMeta, objectData      protowire.Number = 1, 2 // of both
	secretStringData            protowire.Number = 4
	entryKey, entryValue        protowire.Number = 1, 2 // of a map
)

const (
	// mostFrame is the longest event that client-go takes from a watch, in bytes: see
	// NewDecoder in https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/runtime/serializer/streaming/streaming.go
	mostFrame = 16 << 20
	// frameHeader is the length of a frame, in bytes of big endian.
	frameHeader = 4
)

// slimming says what of the objects in an answer is kept.
type slimming struct {
	kind string
	keep func(out, object []byte) []byte // appends what is kept
}

// slimmingOf is that of the answer to a request, if there is one. It is for the watches
// that fill caches, of which CacheTransform and TrimClusterInfo keep the same, and for
// answers to writes of user-data, of which nobody reads more.
func slimmingOf(req *http.Request) (s slimming, watch, ok bool) {
	query := req.URL.Query()
	watch = req.Method == http.MethodGet && query.Get("watch") != ""
	one := strings.TrimPrefix(query.Get("fieldSelector"), metav1.ObjectNameField+"=")
	const core, rbac = "/api/v1/namespaces/", "/apis/rbac.authorization.k8s.io/v1/namespaces/"
	const settings = api.NamespaceCloudInitSettings
	path := req.URL.Path
	switch {
	case watch && one == "cluster-info" && path == core+"kube-public/configmaps":
		return slimming{"ConfigMap", slimClusterInfo}, watch, true
	case one != "":
	case watch && path == core+settings+"/secrets":
		return slimming{"Secret", slimUserData}, watch, true
	case watch && path == core+metav1.NamespaceSystem+"/secrets":
		return slimming{"Secret", slimMeta}, watch, true
	case watch && path == core+settings+"/serviceaccounts":
		return slimming{rbacv1.ServiceAccountKind, slimMeta}, watch, true
	case watch && path == rbac+settings+"/roles":
		return slimming{"Role", slimMeta}, watch, true
	case watch && path == rbac+settings+"/rolebindings":
		return slimming{"RoleBinding", slimMeta}, watch, true
	case req.Method == http.MethodPost && path == core+settings+"/secrets",
		req.Method == http.MethodPut && strings.HasPrefix(path, core+settings+"/secrets/"):
		return slimming{"Secret", slimWritten}, watch, true
	}
	return s, watch, false
}

// slim has what a response brings slimmed, where there is something to slim.
func slim(req *http.Request, resp *http.Response) {
	s, watch, ok := slimmingOf(req)
	if !ok || resp.StatusCode >= http.StatusMultipleChoices || !strings.HasPrefix(resp.Header.Get("Content-Type"), protobufType) {
		return
	}
	body := &slimmed{from: resp.Body, slimming: s, whole: !watch}
	if size := resp.ContentLength; body.whole && size > 0 && size < mostFrame {
		body.in.Grow(int(size) + bytes.MinRead)
	}
	resp.Body = body
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// slimmed is the body of an answer whose objects are slimmed before anybody decodes
// them: client-go copies an event four times on the way to the cache, and a rotation
// of a thousand pools brings a hundred megabytes of user-data, cluster-info with ten
// thousand signatures a megabyte each time that there is one more. What it does not
// understand it passes on, for client-go to complain.
type slimmed struct {
	from io.ReadCloser
	slimming
	whole bool // one object to the end, not frames

	in     bytes.Buffer
	out    []byte // of what is not given yet
	failed error
	raw    bool // what comes is passed on as it is

	object, unknown, extension, frame []byte // of the last event, to be used again
}

func (s *slimmed) Close() error { return s.from.Close() }

// Read gives a frame only when all of it is there; the reader cannot do anything with
// less.
func (s *slimmed) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		switch {
		case s.failed != nil:
			return 0, s.failed
		case s.raw:
			return s.from.Read(p)
		}
		s.next()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// next takes the next frame, or all there is.
func (s *slimmed) next() {
	s.in.Reset()
	if s.whole {
		if _, s.failed = s.in.ReadFrom(s.from); s.failed == nil {
			s.failed = io.EOF
		}
		s.out = s.in.Bytes()
		if unknown, ok := s.answer(s.out); ok {
			s.out = unknown
		}
		return
	}
	if _, s.failed = io.CopyN(&s.in, s.from, frameHeader); s.failed != nil {
		s.out = s.in.Bytes()
		return
	}
	size := binary.BigEndian.Uint32(s.in.Bytes())
	if size > mostFrame {
		s.out, s.raw = s.in.Bytes(), true
		return
	}
	s.in.Grow(int(size))
	if _, s.failed = io.CopyN(&s.in, s.from, int64(size)); s.failed != nil {
		s.out = s.in.Bytes()
		return
	}
	s.out = s.in.Bytes()
	if event, ok := s.event(s.out[frameHeader:]); ok {
		s.out = event
	}
}

// event slims an event of a watch, and returns its frame.
func (s *slimmed) event(event []byte) ([]byte, bool) {
	extension, ok := field(event, eventObject)
	if !ok || !wellFormed(event) || !wellFormed(extension) {
		return nil, false
	}
	raw, ok := field(extension, extensionRaw)
	if !ok {
		return nil, false
	}
	unknown, ok := s.answer(raw)
	if !ok {
		return nil, false
	}
	s.extension = replace(s.extension[:0], extension, extensionRaw, unknown)
	s.frame = replace(append(s.frame[:0], make([]byte, frameHeader)...), event, eventObject, s.extension)
	size := len(s.frame) - frameHeader
	if size > mostFrame {
		return nil, false // a digest is longer than a short value
	}
	binary.BigEndian.PutUint32(s.frame, uint32(size)) //nolint:gosec // at most mostFrame
	return s.frame, true
}

// answer slims an object with its envelope.
func (s *slimmed) answer(raw []byte) ([]byte, bool) {
	unknown, ok := bytes.CutPrefix(raw, []byte(protobufMagic))
	if !ok || !wellFormed(unknown) {
		return nil, false
	}
	types, _ := field(unknown, unknownType)
	if kind, _ := field(types, typeKind); string(kind) != s.kind {
		return nil, false // the Status of a watch that failed
	}
	object, ok := field(unknown, unknownRaw)
	if !ok || !wellFormed(object) {
		return nil, false
	}
	s.object = s.keep(s.object[:0], object)
	s.unknown = replace(append(s.unknown[:0], protobufMagic...), unknown, unknownRaw, s.object)
	return s.unknown, true
}

// slimMeta keeps all but who wrote which field.
func slimMeta(out, object []byte) []byte {
	return slimObject(out, object, func(out, whole, _, _ []byte) []byte { return append(out, whole...) })
}

// slimUserData keeps of a Secret in cloud-init-settings what CacheTransform does.
func slimUserData(out, object []byte) []byte {
	meta, _ := field(object, objectMeta)
	if name, _ := field(meta, metaName); string(name) == api.SecretGetterToken {
		return slimMeta(out, object)
	}
	out = slimObject(out, object, func(out, _, key, value []byte) []byte {
		return appendEntry(out, objectData, key, []byte(dataDigest(value)))
	})
	return appendEntry(out, secretStringData, nil, nil) // that is how CacheTransform knows
}

// slimWritten keeps of a Secret that was written all but its user-data.
func slimWritten(out, object []byte) []byte {
	return slimObject(out, object, func(out, whole, key, _ []byte) []byte {
		if string(key) == api.UserDataKey {
			return out
		}
		return append(out, whole...)
	})
}

// slimClusterInfo keeps of cluster-info what TrimClusterInfo does.
func slimClusterInfo(out, object []byte) []byte {
	slimmer := func(out, whole, key, _ []byte) []byte {
		if string(key) != kubeclient.ClusterInfoKey {
			return out
		}
		return append(out, whole...)
	}
	return slimObject(out, object, slimmer)
}

// slimObject appends an object without who wrote which field, each entry of its data
// as entry appends that.
func slimObject(out, object []byte, entry func(out, whole, key, value []byte) []byte) []byte {
	each(object, func(n protowire.Number, whole, content []byte) {
		switch n {
		case objectMeta:
			out = protowire.AppendTag(out, n, protowire.BytesType)
			out = protowire.AppendBytes(out, withoutManagedFields(content))
		case objectData:
			key, _ := field(content, entryKey)
			value, _ := field(content, entryValue)
			out = entry(out, whole, key, value)
		default:
			out = append(out, whole...)
		}
	})
	return out
}

// TrimClusterInfo keeps of cluster-info what pools read. There is a signature in it for
// every bootstrap token, thousands of them, and every pool reads it each time.
func TrimClusterInfo(obj any) (any, error) {
	if cm, ok := obj.(*corev1.ConfigMap); ok {
		text, there := cm.Data[kubeclient.ClusterInfoKey]
		cm.ManagedFields, cm.BinaryData, cm.Data = nil, nil, nil
		if there {
			cm.Data = map[string]string{kubeclient.ClusterInfoKey: text}
		}
	}
	return obj, nil
}

func withoutManagedFields(meta []byte) []byte {
	out := make([]byte, 0, len(meta))
	each(meta, func(n protowire.Number, whole, _ []byte) {
		if n != metaManagedFields {
			out = append(out, whole...)
		}
	})
	return out
}

// appendEntry appends an entry of a map.
func appendEntry(out []byte, n protowire.Number, key, value []byte) []byte {
	var entry []byte
	entry = protowire.AppendBytes(protowire.AppendTag(entry, entryKey, protowire.BytesType), key)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, entryValue, protowire.BytesType), value)
	return protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), entry)
}

// replace appends a message whose fields of a number are replaced by one.
func replace(out, message []byte, number protowire.Number, by []byte) []byte {
	each(message, func(n protowire.Number, whole, _ []byte) {
		if n != number {
			out = append(out, whole...)
		}
	})
	return protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), by)
}

// field is the last of a number in a message, which is the one that counts.
func field(message []byte, number protowire.Number) (out []byte, ok bool) {
	each(message, func(n protowire.Number, _, value []byte) {
		if n == number && value != nil {
			out, ok = value, true
		}
	})
	return out, ok
}

// wellFormed reports whether each gets to the end of a message.
func wellFormed(message []byte) bool {
	read := 0
	each(message, func(_ protowire.Number, whole, _ []byte) { read += len(whole) })
	return read == len(message)
}

// each calls f for the fields of a message in their order: with all of the field, and
// with its value where that is bytes.
func each(message []byte, f func(number protowire.Number, whole, value []byte)) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[n:])
		}
		f(number, message[:n+size], value)
		message = message[n+size:]
	}
}
