// Package taskevents reads the queue of a node's tasks: ECS's events of their states, by an
// EventBridge rule, and what the agents in tasks say of their containers. It hints at pods and
// decides nothing: what it misses a listing finds.
package taskevents
