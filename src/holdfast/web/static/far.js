// How far a job is, from what it said of its progress: any fields it likes, of which three mean something to everybody.

export const ORDINARY = ["done", "total", "fraction"];

/** How far a job is, 0 to 1, or null where it did not say. */
export function fractionOf(progress) {
  const fraction = Number(progress?.fraction);
  return typeof progress?.fraction === "number" ? Math.min(Math.max(fraction, 0), 1) : null;
}

export const percent = (fraction) => `${Math.floor(fraction * 100)} %`;

export function counted(progress) {
  const { done, total } = progress;
  if (typeof done !== "number") return "";
  const words = (number) => number.toLocaleString("en");
  return typeof total === "number" ? `${words(done)} of ${words(total)}` : `${words(done)} done`;
}
