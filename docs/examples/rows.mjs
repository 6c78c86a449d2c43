// Finds the row that decides a call, in the document that `python -m spec export` prints.

function passes(test, value) {
  if (Array.isArray(test)) return test.includes(value);
  if (typeof test !== "object") return test === value;
  return (
    !(test.not ?? []).includes(value) &&
    !("min" in test && value < test.min) &&
    !("max" in test && value > test.max)
  );
}

export function deciding(data, { op, direction, device, profile, facts }) {
  // No row names a device that is like another one: rows of the other one decide under our own profile.
  const own = data.profiles[profile].release === "";
  const decider = (own && data.devices[device].like) || device;
  const matching = data.rows.filter(
    (row) =>
      row.kind === "op" &&
      row.state === "active" &&
      row.op === op &&
      row.behaviour[profile] !== null &&
      ["any", decider].includes(row.device) &&
      (row.direction === direction || (direction === "backward" && row.covers_backward)) &&
      Object.entries(row.when).every(([fact, test]) => passes(test, facts[fact])),
  );
  const ids = matching.map((row) => row.id);
  return matching.find((row) => !row.yields_to.some((id) => ids.includes(id))) ?? null;
}
