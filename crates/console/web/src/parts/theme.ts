// Light or dark: as the system says, or as chosen here.

const STORED = "peeklock-theme";
export type Theme = "system" | "light" | "dark";

export function theme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function setTheme(next: Theme): void {
  if (next === "system") localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, next);
  applyTheme();
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
}
