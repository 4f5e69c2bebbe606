"""Node health: observe heartbeats, judge the evidence, taint nodes, and evict or replace their pods."""
