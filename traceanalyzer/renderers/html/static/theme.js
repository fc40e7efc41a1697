"use strict";
// Light or dark: as the system says, until the reader presses the button with id "theme".
// Whoever draws on a canvas listens for the event "themechange" on the document.

const theme = {
  get dark() {
    return document.documentElement.dataset.theme === "dark";
  },
  set(name) {
    document.documentElement.dataset.theme = name;
    document.dispatchEvent(new Event("themechange"));
  },
  toggle() {
    theme.set(theme.dark ? "light" : "dark");
  },
};

{
  const system = matchMedia("(prefers-color-scheme: dark)");
  theme.set(system.matches ? "dark" : "light");
  system.addEventListener("change", () => theme.set(system.matches ? "dark" : "light"));
  const button = document.getElementById("theme");
  if (button) button.addEventListener("click", theme.toggle);
}
