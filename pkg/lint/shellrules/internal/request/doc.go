// Package request reads calls of curl and wget: what they request, where they write it, and
// whether they send a credential. It judges nothing. Start with FindAll.
package request
